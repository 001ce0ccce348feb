"""Share groups (KIP-932): scripts of members that come, go and err, and of administrators, get the same answers from us
and from Apache Kafka, and leave the same records."""

from __future__ import annotations

from support.group_requests import delete_groups, describe, join
from support.offset_requests import commit, delete, fetch
from support.oracle.share_cast import share_cast
from support.transcript import SameAnswers, Transcript


def test_a_member_comes_stays_and_goes(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_cast(transcript, t=2) as cast:
            cast.note_records("nothing before")
            cast.join("joins", "a", "t", rack_id="r", changes=7)
            cast.note_records("records of that")
            cast.describe("described")
            cast.describe_offsets("offsets of all", None)
            cast.describe_offsets("offsets of some", {"t": [0], "none": [0]})
            cast.describe_offsets("offsets of none", {}, 0)
            cast.beat("gets its partitions", "a")
            cast.note_records("records of the assignment")
            cast.describe("described then", operations=True)
            cast.beat("nothing new", "a")
            cast.beat("the same topics", "a", names=["t"])
            cast.beat("another rack", "a", rack_id="r1")
            cast.beat("the epoch before", "a", 2)
            cast.beat("an older epoch", "a", 1)
            cast.beat("a newer epoch", "a", 9)
            cast.beat("an unknown member", "x", 3)
            cast.leave("an unknown member leaves", "x")
            cast.join("joins again", "a", "t")
            cast.note_records("records of its fields")
            cast.leave("leaves", "a")
            cast.note_records("records of its end")
            cast.describe("described without members")
            cast.leave("leaves again", "a")
            cast.join("another one joins", "b", "t")
            cast.note_records("records of the new beginning")

    same_answers(script)


def test_heartbeats_that_are_refused(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_cast(transcript, t=1) as cast:
            for blank in ("", " "):
                cast.join(f"member {blank!r}", blank, "t")
                cast.join(f"group {blank!r}", "m", "t", group_id=blank)
                cast.join(f"rack {blank!r}", "m", "t", rack_id=blank)
            cast.join("a long member id", "m" * 37, "t")
            for epoch in (1, -1, -2):
                cast.beat(f"epoch {epoch}", "m", epoch)
            cast.beat("joins without topics", "m", 0)
            cast.join("joins with no topics", "m")
            cast.describe("no group has come of it")
            cast.note_records("nor records")

    same_answers(script)


def test_members_share_topics(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_cast(transcript, t=1, u=1) as cast:
            cast.note_records("nothing before")
            cast.join("first", "a", "t", changes=7)
            cast.beat("first gets it", "a")
            cast.note_records("records of one")
            cast.join("second", "b", "t")
            cast.note_records("records of two")
            cast.beat("first keeps it", "a")
            cast.describe("both have it")
            cast.beat("second reads the other, too", "b", names=["t", "u"], changes=7)
            cast.note_records("records of another topic")
            cast.beat("second gets both", "b")
            cast.beat("first still has one", "a")
            cast.note_records("records of both topics")
            cast.beat("second reads the other only", "b", names=["u"])
            # Apache Kafka's target of it has the other topic with no partitions; ours does not have the topic.
            cast.describe("one each")

    same_answers(script)


def test_topics_grow_and_go(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_cast(transcript, t=1) as cast:
            cast.note_records("nothing before")
            cast.join("joins", "a", "t", changes=7)
            cast.beat("gets one", "a")
            cast.note_records("records of one partition")
            cast.grow("t", 2)
            cast.beat("the topic has grown", "a", changes=5)
            cast.note_records("records of the growth")
            cast.beat("gets two", "a")
            cast.note_records("records of two partitions")

    same_answers(script)


def test_administrators_change_where_a_group_is(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_cast(transcript, t=2, u=1) as cast:
            cast.delete_offsets("no such group", "t")
            cast.alter_offsets("made by that", {"t": {0: 0, 5: 0}, "none": {0: 0}})
            cast.note_records("records of that", changes=2)
            cast.describe("described")
            cast.describe_offsets("where it is", None)
            cast.alter_offsets("altered again", {"t": {0: 0, 1: 0}})
            cast.note_records("records of the change", changes=2)
            cast.delete_offsets("one topic of three", "t", "u", "none")
            cast.note_records("records of the deletion", changes=2)
            cast.describe_offsets("nowhere", None)
            cast.join("a member", "a", "u", changes=7)
            cast.alter_offsets("with a member", {"t": {0: 0}})
            cast.delete_offsets("forgotten with a member", "u")
            cast.ask("a group with a member", delete_groups(cast.group), 2)
            cast.leave("leaves", "a")
            cast.note_records("records of the member")
            cast.ask("a group without members", delete_groups(cast.group), 2)
            cast.note_records("records of its end")
            cast.ask("again", delete_groups(cast.group), 2)

    same_answers(script)


def test_requests_of_other_protocols(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_cast(transcript, t=1) as cast:
            cast.join("joins", "a", "t")
            for state in ("with a member", "empty"):
                cast.ask(f"JoinGroup, {state}", join(cast.group), 5)
                cast.ask(f"DescribeGroups, {state}", describe(cast.group), 5)
                cast.ask(f"OffsetCommit, {state}", commit(cast.group, cast.full("t"), 0), 8)
                cast.ask(f"OffsetFetch, {state}", fetch(cast.group, [(cast.full("t"), [0])], 7), 7)
                cast.ask(f"OffsetDelete, {state}", delete(cast.group, (cast.full("t"), [0])), 0)
                if state == "with a member":
                    cast.leave("leaves", "a")

    same_answers(script)
