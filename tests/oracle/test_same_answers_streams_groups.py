"""Streams groups (KIP-1071): scripts of members that come, go and err get the same answers from us and from Apache
Kafka, and leave the same records."""

from __future__ import annotations

from kmini.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset
from support.broker.streams_lab import topology
from support.group_requests import delete_groups, describe, join
from support.offset_requests import commit, delete, fetch
from support.oracle.streams_cast import StreamsCast, streams_cast
from support.transcript import SameAnswers, Transcript


def test_a_member_comes_stays_and_goes(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=4) as cast:
            reads = cast.sub("0", "t")
            tags = [KeyValue(key="zone", value="b"), KeyValue(key="cluster", value="c")]
            cast.join("joins", "a", reads, client_tags=tags, rack_id="r", user_endpoint=Endpoint(host="h", port=9))
            cast.note_records("records of that")
            cast.describe("described")
            cast.beat("a heartbeat", "a")
            cast.describe("described then", operations=True)
            cast.step("with its tasks", "a", endpoint_information_epoch=0)
            cast.beat("with another endpoint epoch", "a", endpoint_information_epoch=5)
            cast.join("joins again", "a", reads)
            cast.note_records("records of that too")
            cast.beat("another rack", "a", rack_id="r1")
            cast.beat("another time-out", "a", rebalance_timeout_ms=50_000)
            cast.beat("another endpoint", "a", user_endpoint=Endpoint(host="h", port=10))
            cast.beat("no tags", "a", client_tags=[])
            cast.beat("nothing new", "a", rack_id="r1", client_tags=[])
            cast.note_records("records of its fields")
            cast.leave("leaves", "a")
            cast.note_records("records of its end")
            cast.describe("described without members")
            cast.leave("leaves again", "a")
            cast.beat("a heartbeat after that", "a", 2)
            cast.join("another one joins", "b", reads)
            cast.note_records("records of the new beginning")

    same_answers(script)


def test_heartbeats_that_are_refused(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=1) as cast:
            reads = cast.sub("0", "t")
            for blank in ("", " "):
                cast.join(f"member {blank!r}", blank, reads)
                cast.join(f"group {blank!r}", "m", reads, group_id=blank)
                cast.join(f"rack {blank!r}", "m", reads, rack_id=blank)
            for epoch in (1, -1, -2, -3):
                cast.beat(f"epoch {epoch}", "m", epoch)
            cast.beat("-2 of an instance", "m", -2, instance_id="i")
            cast.join("an instance", "m", reads, instance_id="i")
            cast.join("no time-out", "m", reads, rebalance_timeout_ms=-1)
            cast.join("no topology", "m", reads, topology=None)
            cast.join("no tasks", "m", reads, owned=None)
            cast.join("a task", "m", reads, owned=({"0": [0]}, {}, {}))
            cast.join("no partition of a task", "m", reads, owned=({"0": []}, {}, {}))
            cast.join("a warm-up task", "m", reads, owned=({}, {}, {"0": []}))
            cast.join("offsets", "m", reads, task_offsets=[])
            offsets = [TaskOffset(subtopology_id="0", partition=0, offset=1)]
            cast.join("end offsets", "m", reads, task_end_offsets=offsets)
            cast.join("a tag twice", "m", reads, client_tags=[KeyValue(key="a", value="b")] * 2)
            cast.beat("a topology later", "m", 1, topology=topology(reads))
            cast.beat("one list of three", "m", 1, active_tasks=[TaskIds(subtopology_id="0", partitions=[])])
            cast.join("an expression", "m", cast.sub("0", "t", regex=["t.*"]))
            cast.join("a changelog with a size", "m", cast.sub("0", "t", keeps=["c"], changelog_partitions=3))
            cast.join("a repartition topic that nothing writes", "m", cast.sub("0", "t", through={"r": 0}))
            cast.join("a loop", "m", cast.sub("0", through={"r": 0}, writes=["r"]))
            cast.join("an id twice", "m", reads, reads)
            cast.join("a negative epoch", "m", reads, epoch=-1)
            cast.describe("no group has come of it")
            cast.note_records("nor records")

    same_answers(script)


def test_topics_of_a_topology_that_cannot_be(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=1) as cast:
            for number, name in enumerate(("__consumer_offsets", "__share_group_state", "a b", "", "..", "x" * 250)):
                given = cast.sub("0", "t")
                given.source_topics.append(name)
                cast.join(f"source {number}", "m", given)
                given = cast.sub("0", "t")
                given.repartition_sink_topics.append(name)
                cast.join(f"sink {number}", "m", given)
            cast.describe("no group has come of it")

    same_answers(script)


def test_a_group_of_two_step_by_step(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=4) as cast:
            reads = cast.sub("0", "t")
            cast.join("first", "a", reads)
            cast.join("second", "b", reads)
            cast.describe("second has joined")
            cast.note_records("records of both")
            cast.beat("first is asked to give up", "a")
            cast.beat("it is not told twice", "a")
            cast.describe("while it gives up")
            cast.beat("second waits", "b")
            cast.beat("first still has all", "a", owned=({"0": [0, 1, 2, 3]}, {}, {}))
            cast.beat("first has one too many", "a", owned=({"0": [0, 1, 2]}, {}, {}))
            cast.step("first has given up", "a")
            cast.beat("its answer was lost", "a", 2, owned=({"0": [0, 1]}, {}, {}))
            cast.beat("it says nothing of its tasks", "a", 2)
            cast.beat("it says too much", "a", 2, owned=({"0": [0, 3]}, {}, {}))
            cast.beat("an older epoch", "a", 1, owned=({"0": [0, 1]}, {}, {}))
            cast.beat("a newer epoch", "a", 9)
            cast.beat("no such subtopology", "a", owned=({"9": [0]}, {}, {}))
            cast.beat("no such task", "a", owned=({}, {"0": [4]}, {}))
            cast.beat("an unknown member", "x", 3)
            cast.step("second gets its share", "b")
            cast.describe("stable")
            cast.note_records("records of the rebalance")
            cast.leave("first leaves", "a")
            cast.step("second gets all", "b")
            cast.describe("stable again")
            cast.note_records("records of the end")

    same_answers(script)


def settle(cast: StreamsCast, what: str, *members: str) -> None:
    for number in range(5):
        for member in members:
            cast.step(f"{what}, round {number}: {member}", member)


def test_standbys_come_take_over_and_go(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=2) as cast:
            counts = cast.sub("0", "t", keeps=["c"])
            cast.join("first", "a", counts)
            cast.adopt(c=2)
            cast.beat("first has all", "a")
            cast.join("second", "b", counts)
            settle(cast, "without standbys", "a", "b")
            cast.note_records("records without standbys")
            cast.set_standbys(1)
            settle(cast, "with standbys", "a", "b")
            cast.describe("with standbys")
            cast.note_records("records with standbys")
            cast.leave("first leaves", "a")
            settle(cast, "the standbys have taken over", "b")
            cast.note_records("records of that")
            cast.set_standbys(0)
            settle(cast, "none again", "b")
            cast.note_records("records of the end")

    same_answers(script)


def test_internal_topics_are_made_as_asked(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=4, u=3) as cast:
            both = (
                cast.sub("1", through={"r": 0}, keeps=["c"], configs={"cleanup.policy": "compact"}),
                cast.sub("0", "t", "u", writes=["r"]),
            )
            cast.join("joins", "a", *both)
            cast.note_records("records before")
            cast.adopt(r=4, c=4)
            cast.beat("they are there", "a")
            cast.describe("described")
            cast.note_records("records then")
            cast.delete_topic("u")
            cast.step("a source is gone", "a")
            cast.step("and given up", "a")
            cast.describe("described then")
            cast.note_records("records without a source")

    same_answers(script)


def test_topics_that_are_missing_or_do_not_fit(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=2, c=3) as cast:
            cast.join("a source is missing", "a", cast.sub("0", "t", "late"))
            cast.describe("described without it")
            cast.create(late=5)
            cast.beat("it is there", "a")
            cast.describe("described with it")
            cast.grow("late", 6)
            cast.beat("it has grown", "a")
            cast.note_records("records of that")
            cast.leave("leaves", "a")
        with streams_cast(transcript, "-2", t=2, c=3) as cast:
            cast.join("a changelog of another size", "a", cast.sub("0", "t", keeps=["c"]))
            cast.describe("described")
            cast.note_records("records")

    same_answers(script)


def test_topologies_of_other_epochs(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=1, u=1) as cast:
            cast.join("epoch 3", "a", cast.sub("0", "t"), epoch=3)
            cast.join("another one of epoch 2", "b", cast.sub("0", "u"), epoch=2)
            cast.beat("which is stale", "b")
            cast.join("another one of epoch 3", "c", cast.sub("0", "u"), epoch=3)
            cast.join("the same of epoch 4", "c", cast.sub("0", "t"), epoch=4)
            cast.join("the same of epoch 3", "c", cast.sub("0", "t"), epoch=3)
            cast.describe("described")

    same_answers(script)


def test_a_shutdown_of_the_application(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=2) as cast:
            reads = cast.sub("0", "t")
            cast.join("first", "a", reads)
            cast.join("second", "b", reads)
            cast.beat("first asks", "a", shutdown_application=True)
            cast.beat("second is told", "b")
            cast.leave("first leaves", "a")
            cast.beat("second is told again", "b")
            cast.leave("second leaves", "b", shutdown_application=True)
            cast.join("nothing is told", "c", reads)

    same_answers(script)


def test_delays_of_the_first_target_and_of_later_ones(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, delay_ms=1_000, t=2) as cast:
            reads = cast.sub("0", "t")
            cast.join("first", "a", reads)
            cast.beat("first waits", "a")
            cast.note_records("records of the beginning")
            cast.log.wait_for_records(1)
            cast.note_records("records of the end of the delay")
            cast.describe("described")
            cast.beat("first has all", "a")
            cast.join("second", "b", reads)
            cast.leave("first leaves", "a")
            cast.leave("second leaves", "b")
            cast.join("third waits again", "c", reads)
            cast.note_records("records of the others")
        with streams_cast(transcript, "-2", interval_ms=15_000, t=2) as cast:
            reads = cast.sub("0", "t")
            cast.join("first", "a", reads)
            cast.join("second within the interval", "b", reads)
            cast.beat("first keeps all", "a")
            cast.describe("described")
            cast.note_records("records")

    same_answers(script)


def test_offsets_are_committed_with_member_epochs(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=4, u=1) as cast:
            reads = cast.sub("0", "t")
            cast.join("first", "a", reads)
            cast.join("second", "b", reads)
            cast.beat("first is asked to give up", "a")
            for topic, partition in (("t", 0), ("t", 3), ("u", 0)):
                for member, epoch in (("a", 2), ("a", 1), ("a", 3), ("b", 3), ("b", 2), ("x", 2), ("", -1)):
                    for version in (8, 9):
                        what = f"{member!r} at {epoch} commits {topic}-{partition}"
                        request = commit(cast.group, cast.full(topic), partition, generation=epoch, member_id=member)
                        cast.ask(what, request, version)
            cast.note_records("records")

    same_answers(script)


def test_endpoints_of_interactive_queries(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=4, small=1) as cast:
            reads = cast.sub("0", "t", "small")
            cast.join("first", "a", reads, user_endpoint=Endpoint(host="one", port=1))
            cast.beat("first knows all", "a", endpoint_information_epoch=0)
            cast.join("second has none", "b", reads)
            cast.beat("first is asked to give up", "a", endpoint_information_epoch=0)
            cast.step("first has given up", "a", endpoint_information_epoch=1)
            cast.join("third", "c", reads, user_endpoint=Endpoint(host="three", port=3))
            for member in ("a", "b", "c"):
                for epoch in (-1, 0, 1, 2, 3):
                    cast.step(f"{member} knows epoch {epoch}", member, endpoint_information_epoch=epoch)

    same_answers(script)


def test_members_of_one_process_share_its_tasks(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=4) as cast:
            counts = cast.sub("0", "t", keeps=["c"])
            cast.set_standbys(1)
            cast.join("first", "a", counts, process_id="p1")
            cast.adopt(c=4)
            cast.beat("first has all", "a")
            cast.join("second is of its process", "b", counts, process_id="p1")
            settle(cast, "no standby has a place", "a", "b")
            cast.note_records("records of one process")
            cast.join("third is of another", "c", counts, process_id="p2")
            for number in range(5):
                for member in ("a", "b", "c"):
                    answer = cast.step(f"{member}, {number}", member)
                    assert answer.error_code == 0
            cast.describe("in the end")
            cast.beat("third is of another process now", "c", process_id="p1")
            cast.beat("third, then", "c")

    same_answers(script)


def test_requests_of_the_classic_protocol_and_of_administrators(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with streams_cast(transcript, t=2) as cast:
            reads = cast.sub("0", "t")
            cast.ask("a commit from outside", commit(cast.group, cast.full("t"), 0), 8)
            cast.note_records("records of a simple group")
            cast.join("takes its place", "a", reads)
            cast.note_records("records of that")
            cast.ask("offsets", fetch(cast.group, None, 7), 7)
            cast.ask("a classic member joins", join(cast.group), 3)
            cast.ask("described as a classic group", describe(cast.group), 6)
            cast.ask("deleted with a member", delete_groups(cast.group), 2)
            cast.ask("offsets of a topic that it reads", delete(cast.group, (cast.full("t"), [0])), 0)
            cast.leave("leaves", "a")
            cast.ask("offsets of it then", delete(cast.group, (cast.full("t"), [0])), 0)
            cast.ask("deleted", delete_groups(cast.group), 2)
            cast.note_records("records of the end")

    same_answers(script)
