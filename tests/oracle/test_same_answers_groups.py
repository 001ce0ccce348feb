"""The classic group protocol: scripts of members that come, go and err get the same answers from us and from Apache
Kafka."""

from __future__ import annotations

from support.group_requests import Cast, delete_groups, describe, heartbeat, join, leave, list_groups, sync, wish
from support.oracle.group_casts import cast_of, joined, settled, until_members
from support.transcript import SameAnswers, Transcript
from support.until import until

SHARE_MS = 4_000
"""Milliseconds after which a member is out that does not join again, or does not ask for its share, by the wall clock
of both servers: on a busy machine the steps before that have taken more than one second."""


def test_one_member_in_every_version(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for version in range(10):
            with cast_of(transcript, f"-{version}") as cast:
                group = cast.group
                cast.ask("comes", join(group), version, name="a")
                if version >= 4:
                    cast.ask("comes with its id", join(group, cast.ids["a"]), version, name="a")
                mine = cast.ids["a"]
                generation = 1
                cast.ask("heartbeat before its share", heartbeat(group, mine, generation), min(version, 4))
                cast.ask("gets its share", sync(group, mine, generation, {mine: b"all"}), min(version, 5))
                cast.ask("gets it again", sync(group, mine, generation), min(version, 5))
                cast.ask("heartbeat", heartbeat(group, mine, generation), min(version, 4))
                cast.ask("an old heartbeat", heartbeat(group, mine, generation - 1), min(version, 4))
                cast.ask("a heartbeat of a stranger", heartbeat(group, "stranger", generation), min(version, 4))
                cast.ask("an old sync", sync(group, mine, generation - 1), min(version, 5))
                cast.ask("a sync of a stranger", sync(group, "stranger", generation), min(version, 5))
                cast.ask("a stranger joins", join(group, "stranger"), version)
                cast.ask("leaves", leave(group, mine, version=version), min(version, 5))
                cast.ask("leaves again", leave(group, mine, version=version), min(version, 5))
                cast.ask("heartbeat after that", heartbeat(group, mine, generation), min(version, 4))
                cast.ask("sync after that", sync(group, mine, generation), min(version, 5))
                cast.ask("comes back with the old id", join(group, mine), version)

    same_answers(script)


def test_joins_that_are_refused(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for version in range(10):
            with cast_of(transcript, f"-{version}") as cast:
                group = cast.group
                cast.ask("no group", join(""), version)
                cast.ask("no group, and a member", join("", "m"), version)
                for session_ms in (-1, 0, 5_999, 1_800_001):
                    cast.ask(f"a session of {session_ms} ms", join(group, "m", session_ms=session_ms), version)
                cast.ask("a member of no group", join(group, "m"), version)
                cast.ask("no type", join(group, protocol_type=""), version)
                cast.ask("no protocols", join(group, protocols={}), version)
                cast.ask("no protocols, and a member", join(group, "m", protocols={}), version)
                cast.ask("what became of the group", describe(group), 5)
                settled(cast, "a", "b", protocol=("consumer", "x"), protocols={"x": wish(), "y": wish()})
                cast.ask("another type", join(group, protocol_type="connect", protocols={"x": wish()}), version)
                cast.ask("nothing in common", join(group, protocols={"z": wish()}), version)
                cast.ask("a stranger", join(group, "m", protocols={"x": wish()}), version)
                cast.ask("a stranger with nothing", join(group, "m", protocols={"z": wish()}), version)
                mine = cast.ids["b"]
                cast.ask("a member with nothing in common", join(group, mine, protocols={"z": wish()}), version)
                cast.ask("a member of another type", join(group, mine, protocol_type="connect"), version)
                if version >= 5:
                    wishes = {"protocols": {"x": wish(), "y": wish()}}
                    cast.ask("an unknown instance", join(group, "m", instance="i", **wishes), version)
                    cast.ask("a member as an instance", join(group, mine, instance="i", **wishes), version)

    same_answers(script)


def test_names_of_every_kind(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        names = {
            "empty": "",
            "dot": ".",
            "blank": "a b",
            "long": "x" * 300,
            "longer": "x" * 2_000,
            "umlaut": "ä",
            "zero": "\0",
        }
        for what, name in names.items():
            with cast_of(transcript, f"-{what}") as cast:
                group = cast.group
                cast.ask("as an instance", join(group, instance=name), 9, name="a")
                if "a" in cast.ids and what != "empty":
                    cast.ask("its share", sync(group, cast.ids["a"], 1, {cast.ids["a"]: b"x"}, instance=name))
                    cast.ask("described", describe(group), 6)
                    cast.ask("leaves by it", leave(group, ("", name)))
            with cast_of(transcript, f"-{what}-protocol") as cast:
                group = cast.group
                cast.ask("as a protocol", join(group, protocols={name: wish()}), 3, name="a")
                cast.ask("as another protocol", join(group, cast.ids.get("a", "m"), protocols={name: wish("t")}), 9)
            with cast_of(transcript, f"-{what}-type") as cast:
                cast.ask("as a type", join(cast.group, protocol_type=name), 3, name="a")
                if what != "empty":  # a group that a refused member has made is in Kafka's memory alone, for any time
                    cast.ask("described", describe(cast.group), 6)
            with cast_of(transcript, f"-{what}-member") as cast:
                cast.ask("as a member", join(cast.group, name), 9, name="a")
                cast.ask("heartbeat", heartbeat(cast.group, name, 0))
                cast.ask("leaves", leave(cast.group, name, (name, name), (name, "i")))

    same_answers(script)


def test_a_protocol_that_is_named_twice(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            twice = [("x", wish("a")), ("y", wish("b")), ("y", wish("c"))]
            cast.ask("joins", join(cast.group, protocols=twice), 3, name="a")
            cast.ask("joins again", join(cast.group, cast.ids["a"], protocols=twice), 9, name="a")

    same_answers(script)


def test_requests_to_no_group(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            for group, what in (("", "no name"), (cast.group, "unknown")):
                for version in range(6):
                    cast.ask(f"{what}: sync", sync(group, "m", 1), version)
                    if version <= 4:
                        cast.ask(f"{what}: heartbeat", heartbeat(group, "m", 1), version)
                    cast.ask(f"{what}: leave", leave(group, "m", version=version), version)
                    if version >= 3:
                        cast.ask(f"{what}: nobody leaves", leave(group), version)
                        cast.ask(f"{what}: several leave", leave(group, "m", ("", "i"), ("n", "i")), version)

    same_answers(script)


def test_a_group_of_three(same_answers: SameAnswers) -> None:
    """Each member is told the same in each generation: the leader, the wishes of all, and the shares."""

    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            wishes = {name: {"range": wish(name), "sticky": wish("s")} for name in "abc"}
            joined(cast, "a", protocols=wishes["a"])
            cast.ask("a newcomer gets an id", join(group, protocols=wishes["b"]), name="b")
            cast.begin(join(group, cast.ids["b"], protocols=wishes["b"]), name="b")
            assert cast.is_waiting("b")
            cast.begin(join(group, protocols=wishes["c"]), 3, name="c")
            assert cast.is_waiting("c")
            cast.ask("heartbeat in a rebalance", heartbeat(group, cast.ids["a"], 1))
            cast.ask("sync in a rebalance", sync(group, cast.ids["a"], 1))
            cast.ask("described in a rebalance", describe(group), 5)
            cast.ask("the first joins again", join(group, cast.ids["a"], protocols=wishes["a"]), name="a")
            for name in "bc":
                cast.end(f"{name} is answered", name=name)
            cast.ask("described before it is shared", describe(group), 5)
            cast.ask("a lost answer, the leader", join(group, cast.ids["a"], protocols=wishes["a"]), name="a")
            cast.ask("a lost answer, a follower", join(group, cast.ids["b"], protocols=wishes["b"]), name="b")
            for name in "bc":
                cast.begin(sync(group, cast.ids[name], 2), name=name)
                assert cast.is_waiting(name)
            cast.ask("heartbeat of who waits", heartbeat(group, cast.ids["b"], 2))
            shares = {cast.ids["a"]: b"one", cast.ids["b"]: b"two", "stranger": b"three"}
            cast.ask("the leader shares", sync(group, cast.ids["a"], 2, shares, protocol=("consumer", "range")))
            for name in "bc":
                cast.end(f"{name} gets a share", name=name)
            cast.ask("described when it is shared", describe(group, operations=True), 5)
            cast.ask("an unchanged follower joins", join(group, cast.ids["b"], protocols=wishes["b"]), name="b")
            cast.ask("another type", sync(group, cast.ids["b"], 2, protocol=("connect", None)))
            cast.ask("another protocol", sync(group, cast.ids["b"], 2, protocol=("consumer", "sticky")))
            cast.begin(join(group, cast.ids["c"], protocols={"sticky": wish("only")}), name="c")
            assert cast.is_waiting("c")
            for name in "ba":
                cast.begin(join(group, cast.ids[name], protocols=wishes[name]), name=name)
            for name in "abc":
                cast.end(f"{name} in the third generation", name=name)
            cast.ask("the leader leaves unshared", leave(group, cast.ids["a"]))
            cast.ask("heartbeat then", heartbeat(group, cast.ids["b"], 3))
            cast.ask("described then", describe(group), 5)
            cast.ask("the others leave", leave(group, cast.ids["b"], cast.ids["c"], "stranger"))
            cast.ask("described when empty", describe(group), 6)

    same_answers(script)


def test_a_rebalance_ends_the_wait_for_shares(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            joined(cast, "a")
            cast.begin(join(group), 3, name="b")
            assert cast.is_waiting("b")
            cast.begin(join(group, cast.ids["a"]), name="a")
            for name in "ab":
                cast.end(f"{name} joins", name=name)
            cast.begin(sync(group, cast.ids["b"], 2), name="b")
            assert cast.is_waiting("b")
            cast.begin(join(group), 3, name="c")
            cast.end("b is told to join again", name="b")
            cast.ask("sync of the leader comes too late", sync(group, cast.ids["a"], 2, {cast.ids["a"]: b"x"}))
            cast.begin(join(group, cast.ids["a"]), name="a")
            assert cast.is_waiting("a")
            cast.ask("leaves while others wait", leave(group, cast.ids["b"]))
            for name in "ac":
                cast.end(f"{name} goes on without", name=name)
            cast.ask("the share of one that left", sync(group, cast.ids["b"], 3))

    same_answers(script)


def test_a_member_that_was_told_its_id_and_goes(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            settled(cast, "a")
            cast.ask("is told its id", join(group), name="b")
            cast.ask("heartbeat", heartbeat(group, cast.ids["b"], 1))
            cast.ask("sync", sync(group, cast.ids["b"], 1))
            cast.ask("described", describe(group), 5)
            cast.begin(join(group, cast.ids["a"]), name="a")
            assert cast.is_waiting("a")
            cast.ask("goes", leave(group, cast.ids["b"]))
            cast.end("the other need not wait", name="a")
            cast.ask("comes after all", join(group, cast.ids["b"]), name="b")

    same_answers(script)


def without_nameless_group(cast: Cast) -> None:
    """Other tests of the same Apache Kafka commit offsets without naming a group."""
    cast.begin(delete_groups(""), 2, name="script")
    cast.end("", name="script", quietly=True)


def test_groups_are_described(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            settled(cast, "i1", "b")
            without_nameless_group(cast)
            absent = f"{cast.group}-absent"
            for version in range(7):
                cast.ask("one", describe(cast.group), version)
                cast.ask("absent", describe(absent), version)
                cast.ask("no name", describe(""), version)
                cast.ask("none", describe(), version)
                cast.ask("the same twice", describe(cast.group, cast.group), version)
                if version >= 3:
                    cast.ask("with operations", describe(cast.group, operations=True), version)
                    cast.ask("absent, with operations", describe(absent, operations=True), version)

    same_answers(script)


def test_groups_are_listed(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast, cast_of(transcript, "-empty") as empty:
            settled(cast, "a")
            settled(empty, "b", protocol=("connect", "range"), protocol_type="connect")
            empty.ask("one leaves", leave(empty.group, empty.ids["b"]))

            def ask(what: str, version: int, **filters: list[str]) -> None:
                cast.begin(list_groups(**filters), version, name="script")
                answer = cast.end("", name="script", quietly=True)
                mine = [group for group in answer.groups if group.group_id.startswith(transcript.topic)]
                listed = [answer.error_code, *sorted(str(group.to_dict(json=False)) for group in mine)]
                transcript.note(f"{what}, v{version}", listed, api="ListGroups")

            for version in range(6):
                ask("all", version)
                if version >= 4:
                    for states in (["Stable"], ["stable", "EMPTY"], [" Empty "], ["Dead"], ["nonsense"], [""]):
                        ask(f"in {states}", version, states=states)
            for types in (["classic"], ["CLASSIC", "consumer"], ["consumer"], ["nonsense"], [""], [" classic "]):
                ask(f"of {types}", 5, types=types)
            ask("of both", 5, types=["classic"], states=["Stable"])

    same_answers(script)


def test_groups_are_deleted(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for version in range(3):
            with cast_of(transcript, f"-{version}") as cast:
                group = cast.group
                settled(cast, "a")
                without_nameless_group(cast)
                absent = f"{group}-absent"
                cast.ask("with a member", delete_groups(group, absent, ""), version)
                cast.ask("the member leaves", leave(group, cast.ids["a"]))
                cast.ask("without", delete_groups(group, group), version)
                cast.ask("again", delete_groups(group), version)
                cast.ask("none", delete_groups(), version)
                cast.ask("described", describe(group), 6)
                cast.ask("heartbeat", heartbeat(group, cast.ids["a"], 1))
                cast.ask("it begins anew", join(group), 3, name="a")

    same_answers(script)


def test_a_member_that_does_not_join_again_in_time(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            settled(cast, "a", "b", "i1", rebalance_ms=SHARE_MS)
            cast.begin(join(group, rebalance_ms=SHARE_MS), 3, name="c")
            assert cast.is_waiting("c")
            cast.begin(join(group, cast.ids["a"], rebalance_ms=SHARE_MS), name="a")
            for name in "ac":
                cast.end(f"{name} in the next generation", name=name)
            cast.ask("who missed it", heartbeat(group, cast.ids["b"], 3))
            cast.ask("the static one that missed it", heartbeat(group, cast.ids["i1"], 3, instance="i1"))
            cast.ask("described", describe(group), 5)
            cast.begin(sync(group, cast.ids["c"], 3), name="c")
            assert cast.is_waiting("c")
            cast.ask("shared", sync(group, cast.ids["a"], 3, {cast.ids["a"]: b"all"}))
            cast.end("gets nothing", name="c")
            until_members(cast, "a", "c")
            cast.ask("the static one that asked for no share", heartbeat(group, cast.ids["i1"], 3, instance="i1"))
            cast.ask("the others have to join again", heartbeat(group, cast.ids["a"], 3))
            cast.ask("described then", describe(group), 5)

    same_answers(script)


def test_a_member_that_does_not_ask_for_its_share_in_time(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            joined(cast, "a", rebalance_ms=SHARE_MS)
            cast.begin(join(group, rebalance_ms=SHARE_MS), 3, name="b")
            assert cast.is_waiting("b")
            cast.begin(join(group, cast.ids["a"], rebalance_ms=SHARE_MS), name="a")
            for name in "ab":
                cast.end(f"{name} joins", name=name)
            cast.begin(sync(group, cast.ids["b"], 2), name="b")
            assert cast.is_waiting("b")
            until_members(cast, "b")
            cast.end("waits for a leader that never shares", name="b")
            cast.ask("the leader", heartbeat(group, cast.ids["a"], 2))
            cast.ask("described", describe(group), 5)

    same_answers(script)


def test_a_member_that_is_silent_for_too_long(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with cast_of(transcript) as cast:
            group = cast.group
            settled(cast, "a", "i1", session_ms=6_000)
            cast.ask("is told its id, and never comes", join(group, session_ms=6_000), name="b")

            def is_told() -> bool:
                cast.begin(heartbeat(group, cast.ids["a"], 2), name="a")
                return bool(cast.end("", name="a", quietly=True).error_code)

            until(is_told, "a heartbeat that is refused", poll_s=0.02)
            cast.ask("heartbeat of the other", heartbeat(group, cast.ids["a"], 2))
            cast.ask("a static member that was silent", heartbeat(group, cast.ids["i1"], 2, instance="i1"))
            cast.ask("described", describe(group), 5)
            cast.ask("joins again", join(group, cast.ids["a"], session_ms=6_000), name="a")
            cast.ask("who never came", join(group, cast.ids["b"], session_ms=6_000))

    same_answers(script)
