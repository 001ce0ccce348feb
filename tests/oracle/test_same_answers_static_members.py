"""Static members (KIP-345): scripts that play them get the same answers from us and from Apache Kafka."""

from __future__ import annotations

from support.group_requests import describe, heartbeat, join, leave, sync, wish
from support.oracle.group_casts import cast_of, settled
from support.transcript import SameAnswers, Transcript


def test_static_members(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for version in range(5, 10):
            with cast_of(transcript, f"-{version}") as cast:
                group = cast.group
                settled(cast, "i1", "i2", "c")
                old = dict(cast.ids)
                cast.ask("a follower comes back", join(group, instance="i2"), version, name="i2")
                cast.ask("its old self", heartbeat(group, old["i2"], 2, instance="i2"))
                cast.ask("its old self syncs", sync(group, old["i2"], 2, instance="i2"))
                cast.ask("its old self joins", join(group, old["i2"], instance="i2"), version)
                cast.ask("its old self, by member id", heartbeat(group, old["i2"], 2))
                cast.ask("its share", sync(group, cast.ids["i2"], 2, instance="i2"))
                cast.ask("the leader comes back", join(group, instance="i1"), version, name="i1")
                cast.ask("its share, too", sync(group, cast.ids["i1"], 2, instance="i1"))
                cast.ask("its heartbeat", heartbeat(group, cast.ids["i1"], 2, instance="i1"))
                cast.ask("without the instance id", heartbeat(group, cast.ids["i1"], 2))
                cast.ask("with that of another", heartbeat(group, cast.ids["i1"], 2, instance="i2"))
                cast.ask("with an unknown one", heartbeat(group, cast.ids["i1"], 2, instance="i3"))
                cast.ask("described", describe(group), 5)
                members = [(cast.ids["c"], "i1"), ("", "i3"), ("", "i2"), (old["i1"], "i1"), ("", "i2")]
                cast.ask("some are made to leave", leave(group, *members))
                cast.ask("described then", describe(group), 5)

    same_answers(script)


def test_a_static_member_comes_back_in_every_state(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            settled(cast, "i1", "b")
            old = dict(cast.ids)
            cast.begin(join(group, old["i1"], instance="i1"), name="i1")
            assert cast.is_waiting("i1")
            cast.begin(join(group, instance="i1"), name="new")
            cast.end("one that waited to join is fenced", name="i1")
            cast.ask("the other joins", join(group, old["b"]), name="b")
            cast.end("it has joined in its place", name="new")
            cast.begin(sync(group, cast.ids["new"], 3, instance="i1"), name="new")
            cast.end("leads and shares", name="new")
            cast.begin(join(group, cast.ids["new"], instance="i1", protocols={"range": wish("changed")}), name="new")
            assert cast.is_waiting("new")
            cast.begin(join(group, old["b"]), name="b")
            for name in ("new", "b"):
                cast.end(f"{name} joins again", name=name)
            cast.begin(sync(group, old["b"], 4), name="b")
            assert cast.is_waiting("b")
            cast.begin(join(group, instance="i1"), name="newer")
            cast.end("who waits for a share joins again", name="b")
            cast.ask("joins again", join(group, old["b"]), name="b")
            cast.end("a rebalance has begun for it", name="newer")

    same_answers(script)


def test_a_static_member_that_changes_what_it_supports(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            both = {"x": wish(), "y": wish()}
            settled(cast, "i1", "b", protocol=("consumer", "x"), protocols=both)
            cast.ask("the same and more", join(group, instance="i1", protocols={**both, "z": wish()}), name="i1")
            cast.begin(join(group, instance="i1", protocols={"y": wish()}), name="i1")
            assert cast.is_waiting("i1")
            cast.ask("the other joins", join(group, cast.ids["b"], protocols=both), name="b")
            cast.end("another protocol is chosen", name="i1")

    same_answers(script)
