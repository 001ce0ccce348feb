"""Consumer groups (KIP-848): scripts of members that come, go and err get the same answers from us and from Apache
Kafka, and leave the same records."""

from __future__ import annotations

from support.oracle.consumer_cast import REBALANCE_MS, consumer_cast
from support.transcript import SameAnswers, Transcript

A_BLANK = ("", " ", "\t ")
FULL = {"rebalance_timeout_ms": REBALANCE_MS, "names": ["t"], "owned": {}}


def test_a_member_comes_stays_and_goes(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for version in (0, 1):
            with consumer_cast(transcript, f"-{version}", t=4) as cast:
                cast.join("joins", "a", "t", version=version)
                cast.note_records("records of that")
                cast.describe("described", version)
                cast.beat("a heartbeat", "a", version=version)
                cast.step("with what it owns", "a", version=version)
                cast.beat("a full one", "a", owned={"t": range(4)}, names=["t"], rebalance_timeout_ms=REBALANCE_MS)
                cast.beat("nearly a full one", "a", owned={"t": range(4)}, names=["t"])
                cast.beat("another one", "a", names=["t"], rebalance_timeout_ms=REBALANCE_MS)
                cast.beat("joins again", "a", 0, **FULL)
                cast.note_records("no more records")
                cast.beat("another rack", "a", rack_id="r1")
                cast.beat("another time-out", "a", rebalance_timeout_ms=50_000)
                cast.beat("another assignor", "a", server_assignor="range")
                cast.beat("an instance id", "a", instance_id="i")
                cast.beat("nothing new", "a", rack_id="r1", rebalance_timeout_ms=50_000, server_assignor="range")
                cast.beat("another host", "a", version=1 - version)
                cast.note_records("records of its fields")
                cast.describe("described then", version, operations=True)
                cast.leave("leaves at another epoch", "a", version=version)
                cast.note_records("records of its end")
                cast.describe("described without members", version)
                cast.leave("leaves again", "a", version=version)
                cast.beat("a heartbeat after that", "a", 2, version=version)

    same_answers(script)


def test_heartbeats_that_are_refused_before_the_group_is_looked_at(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=1) as cast:
            for version in (0, 1):
                for number, blank in enumerate(A_BLANK):
                    what = f"blank {number}"
                    for epoch in (1, -1, -2, -3):
                        cast.beat(f"{what}: member, epoch {epoch}", blank, epoch, version=version)
                    cast.beat(f"{what}: group", "m", 0, group_id=blank, **FULL, version=version)
                    cast.beat(f"{what}: instance", "m", 0, instance_id=blank, **FULL, version=version)
                    cast.beat(f"{what}: rack", "m", 0, rack_id=blank, **FULL, version=version)
                    cast.beat(f"{what}: assignor", "m", 0, server_assignor=blank, **FULL, version=version)
                    if version == 1:
                        cast.join(f"{what}: member joins", blank, "t")
                cast.beat("-2 without an instance", "m", -2, version=version)
                cast.beat("-3", "m", -3, version=version)
                cast.beat("-3 of an instance", "m", -3, instance_id="i", version=version)
                cast.beat("no time-out", "m", 0, **{**FULL, "rebalance_timeout_ms": -1}, version=version)
                cast.beat("owned is null", "m", 0, **{**FULL, "owned": None}, version=version)
                cast.beat("owns something", "m", 0, **{**FULL, "owned": {"t": [0]}}, version=version)
                cast.beat("owns nothing of a topic", "m", 0, **{**FULL, "owned": {"t": []}}, version=version)
                cast.beat("no subscription", "m", 0, **{**FULL, "names": None}, version=version)
                for name in ("sticky", "UNIFORM", "cooperative-sticky"):
                    cast.beat(f"assignor {name}", "m", 0, server_assignor=name, **FULL, version=version)
                    cast.beat(f"assignor {name}, later", "m", 3, server_assignor=name, version=version)
                cast.beat("several at once", "m", -5, server_assignor="x", rack_id="", version=version)
            cast.describe("no group has come of it")
            cast.note_records("nor records")

    same_answers(script)


def test_heartbeats_to_no_group(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=1) as cast:
            for epoch in (1, 5, -1):
                cast.beat(f"epoch {epoch}", "m", epoch)
            cast.beat("away", "m", -2, instance_id="i")
            cast.beat("static", "m", 1, instance_id="i")
            cast.describe("described")
            cast.describe("described by v0", 0)

    same_answers(script)


def test_a_group_of_two_step_by_step(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for assignor in ("range", "uniform"):
            with consumer_cast(transcript, f"-{assignor}", t=4) as cast:
                fields = {"server_assignor": assignor}
                cast.join("first", "a", "t", **fields)
                cast.join("second", "b", "t", **fields)
                cast.describe("second has joined")
                cast.note_records("records of both")
                cast.beat("first is asked to give up", "a")
                cast.beat("it is not told twice", "a")
                cast.describe("while it gives up")
                cast.beat("second waits", "b")
                cast.step("second waits, and says what it owns", "b")
                cast.beat("first still owns all", "a", owned={"t": range(4)})
                cast.beat("first owns one too many", "a", owned={"t": [0, 1, 2]})
                cast.step("first has given up", "a")
                cast.describe("it has given up")
                cast.step("second gets its share", "b")
                cast.describe("stable")
                cast.note_records("records of the rebalance")
                cast.leave("first leaves", "a")
                cast.describe("after that")
                cast.step("second gets all", "b")
                cast.describe("stable again")
                cast.leave("second leaves", "b")
                cast.describe("empty")
                cast.note_records("records of the end")
                cast.join("a third one", "c", "t", **fields)
                cast.note_records("records of the new beginning")

    same_answers(script)


def test_epochs_that_are_wrong(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=6) as cast:
            for name in "abc":
                cast.join(f"{name} joins", name, "t", server_assignor="range")
                cast.settle(f"with {name}", *sorted(cast.assigned))
            present = dict(cast.epochs)
            for name in "abc":
                for distance in range(-4, 4):
                    for what, owned in {
                        "nothing told": None,
                        "nothing": {},
                        "what it has": cast.assigned[name],
                        "one of it": {"t": cast.assigned[name]["t"][:1]},
                        "all": {"t": range(6)},
                        "another topic": {"none": [0]},
                    }.items():
                        epoch = present[name] + distance
                        if epoch > 0:
                            cast.beat(f"{name} at {distance:+}, owns {what}", name, epoch, owned=owned)
            cast.beat("a stranger", "x", 5)
            cast.beat("a stranger as an instance", "x", 5, instance_id="i")
            cast.beat("a member as an instance", "a", present["a"], instance_id="i")
            cast.leave("a stranger leaves", "x")
            cast.leave("a stranger leaves as an instance", "x", instance_id="i")
            cast.leave("a dynamic member is away", "a", -2, instance_id="i")
            cast.describe("the group")
            cast.note_records("records")

    same_answers(script)


def test_a_lost_answer(same_answers: SameAnswers) -> None:
    """The previous epoch is accepted with a part of what the member has, and answered with the present one."""

    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=4) as cast:
            cast.join("a", "a", "t")
            cast.join("b", "b", "t")
            old = cast.epochs["a"]
            cast.beat("a is told to give up", "a")
            cast.step("a has given up", "a")
            has = cast.assigned["a"]["t"]
            lost = {name: [*has[:count]] for name, count in (("all", 2), ("one", 1))}
            for what, numbers in lost.items():
                cast.beat(f"the old epoch with {what}", "a", old, owned={"t": numbers})
            cast.beat("the old epoch with none", "a", old, owned={})
            cast.beat("the old epoch without", "a", old)
            cast.beat("the old epoch with too much", "a", old, owned={"t": range(4)})
            cast.step("b gets its share", "b")
            cast.beat("the old epoch again", "a", old, owned={"t": has})
            cast.join("a joins again", "a", "t")
            cast.describe("afterwards")
            cast.note_records("records")

    same_answers(script)


def test_a_member_joins_again_while_it_is_to_give_up(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=4) as cast:
            cast.join("a", "a", "t", server_assignor="range")
            cast.join("b", "b", "t", server_assignor="range")
            cast.beat("a is told to give up", "a")
            cast.describe("before")
            cast.join("a joins again", "a", "t")
            cast.describe("after")
            cast.step("b gets its share", "b")
            cast.note_records("records")

    same_answers(script)


def test_a_member_that_gives_nothing_up_in_time(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=4) as cast:
            # short: it begins when a is told to give up its partitions, and has to pass
            cast.join("a", "a", "t", rebalance_timeout_ms=700)
            cast.join("b", "b", "t")
            cast.beat("a is told to give up", "a", owned={"t": range(4)})
            cast.until_members("b")
            cast.describe("without a")
            cast.beat("a is gone", "a")
            cast.beat("b gets all", "b")
            cast.note_records("records")

    same_answers(script)


def test_the_assignment_waits_for_the_interval(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, interval_ms=15_000, t=4) as cast:
            cast.join("a", "a", "t")
            cast.join("b within the interval", "b", "t")
            cast.describe("assigning")
            cast.beat("a, too early", "a")
            cast.join("c within the interval", "c", "t")
            cast.leave("c leaves again", "c")
            cast.describe("assigning still")
            cast.note_records("records until then")
            cast.set_interval(0)
            cast.beat("a when the interval is shorter", "a")
            cast.step("b then", "b")
            cast.describe("reconciling")
            cast.note_records("records afterwards")

    same_answers(script)
