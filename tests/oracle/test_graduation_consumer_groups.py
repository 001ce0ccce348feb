"""A consumer group (KIP-848) in the middle of a rebalance is handed on with its broker's directory: by Apache Kafka to
kmini, and by `kmini graduate` the other way round. Its members go on as they do on a Kafka that is started again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from support.apache_kafka import give_logs_to_kmini
from support.offset_requests import commit, fetch
from support.oracle.consumer_cast import JOINS, LEAVES_FOR_A_WHILE, ConsumerCast
from support.oracle.graduated import graduate
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.transcript import Transcript, differences

GROUP = "readers"
TOPICS = {"t": 6, "u": 4, "v": 2}


class Played(NamedTuple):
    """What the servers of one history answered."""

    before: Transcript
    after: Transcript


def begin(cast: ConsumerCast) -> None:
    """Leave a group in the middle of a rebalance: `a` is to give up partitions and was told so, `b` was not told yet,
    `c` waits for them; the static member `s` is away, and `r` reads by an expression."""
    cast.join("a joins", "a", "t", "u", server_assignor="range")
    cast.join("b joins", "b", "t", server_assignor="range")
    cast.settle("a and b", "a", "b")
    cast.join("s joins", "s1", "u", server_assignor="range", instance_id="s")
    cast.settle("with s", "a", "b", "s1")
    cast.join("r joins", "r", regex=f"{cast.group}-v", server_assignor="range")
    cast.until_epoch(cast.epochs["r"] + 1)
    cast.settle("with r", "a", "b", "s1", "r")
    places = [(partition, 100 + partition, "m") for partition in cast.assigned["b"]["t"]]
    request = commit(cast.group, cast.full("t"), *places, generation=cast.epochs["b"], member_id="b")
    cast.ask("b commits", request, 9)
    cast.beat("s is away", "s1", LEAVES_FOR_A_WHILE, instance_id="s")
    cast.join("c joins", "c", "t", "u", server_assignor="range")
    cast.step("a learns what it has to give up", "a")
    cast.step("c waits", "c")
    cast.describe("in the middle")


def go_on(cast: ConsumerCast) -> None:
    cast.describe("taken over")
    old = cast.epochs["b"]
    cast.beat("an epoch of the future is fenced", "b", cast.epochs["c"] + 1)
    cast.beat("an unknown member is refused", "x", 3)
    request = commit(cast.group, cast.full("t"), *cast.assigned["b"]["t"], generation=old, member_id="b")
    cast.ask("b commits at its old epoch", request, 9)
    cast.ask("offsets as b", fetch(cast.group, [(cast.full("t"), range(6))], 9, member_id="b", member_epoch=old), 9)
    cast.step("c waits still", "c")
    cast.step("a has given up", "a")
    cast.step("c gets something", "c")
    cast.step("b learns", "b")
    cast.step("b has given up", "b")
    cast.settle("all but s", "a", "b", "c", "r")
    cast.describe("without s")
    cast.join("s is back", "s2", "u", server_assignor="range", instance_id="s")
    cast.settle("with s again", "a", "b", "c", "r", "s2")
    cast.beat("the former s is fenced", "s1", cast.epochs["s2"], instance_id="s")
    cast.leave("a leaves", "a")
    cast.settle("without a", "b", "c", "r", "s2")
    cast.join("a is back", "a", "t", "v", server_assignor="range")
    cast.settle("all", "a", "b", "c", "r", "s2")
    cast.beat("r by a list", "r", names=["v"], regex="")
    cast.settle("all by lists", "a", "b", "c", "r", "s2")
    cast.describe("in the end")
    assert cast.epochs["r"] > JOINS
    owners = [place for member in "abcr" for place in _places(cast.assigned[member])]
    owners += _places(cast.assigned["s2"])
    assert sorted(owners) == sorted(_places({name: [*range(count)] for name, count in TOPICS.items()}))


def _places(assigned: dict[str, list[int]]) -> list[tuple[str, int]]:
    return [(name, partition) for name, partitions in assigned.items() for partition in partitions]


@contextmanager
def _transcript(server: ServerProcess) -> Iterator[Transcript]:
    transcript = Transcript(server, GROUP)
    try:
        yield transcript
    finally:
        transcript.close()


def _begun(server: ServerProcess) -> tuple[Transcript, ConsumerCast]:
    with _transcript(server) as transcript:
        cast = ConsumerCast(transcript, "", 0, TOPICS)
        begin(cast)
    return transcript, cast


def _gone_on(server: ServerProcess, begun: tuple[Transcript, ConsumerCast]) -> Played:
    before, cast = begun
    with _transcript(server) as after:
        cast.go_on(after)
        go_on(cast)
        cast.close()
    return Played(before, after)


def test_members_go_on_with_either_servers_directory(need_kafka: None, servers: ExitStack, tmp_path: Path) -> None:
    kafka = ServerProcess(kafka_command(tmp_path / "theirs", {}), tmp_path / "theirs.log")
    servers.callback(kafka.kill)
    begun_at_kafka = _begun(kafka)
    kafka.stop()
    give_logs_to_kmini(tmp_path / "theirs" / "log", tmp_path / "taken")
    twin = begun_at_kafka[1].twin()
    kafka.start()
    expected = _gone_on(kafka, begun_at_kafka)
    kafka.stop()

    taker = ServerProcess(kmini_command(tmp_path / "taken", {}), tmp_path / "taker.log")
    servers.callback(taker.kill)
    taken = _gone_on(taker, (begun_at_kafka[0], twin))
    taker.stop()

    ours = ServerProcess(kmini_command(tmp_path / "ours", {}), tmp_path / "ours.log")
    servers.callback(ours.kill)
    begun_here = _begun(ours)
    ours.stop()
    (tmp_path / "graduated").mkdir()
    graduate(tmp_path / "ours", tmp_path / "graduated" / "log")
    heir = ServerProcess(kafka_command(tmp_path / "graduated", {}), tmp_path / "heir.log")
    servers.callback(heir.kill)
    graduated = _gone_on(heir, begun_here)
    heir.stop()

    assert differences(graduated.before.entries, expected.before.entries) == []
    assert differences(taken.after.entries, expected.after.entries) == [], "Kafka's group on kmini"
    assert differences(graduated.after.entries, expected.after.entries) == [], "kmini's group on Kafka"
