"""A share group (KIP-932) with records in flight goes on with another server: Kafka's directory on kmini, and one of
`kmini graduate` on Kafka. What was accepted is done, and the rest is delivered, as on a Kafka that is started again."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from kmini.broker.share_fetch.share_partition import AcknowledgeType
from support.apache_kafka import give_logs_to_kmini
from support.oracle.graduated import graduate
from support.oracle.share_cast import ShareCast
from support.oracle.share_readers import ShareReaders
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.transcript import Found, Transcript, differences

_, ACCEPT, RELEASE, REJECT, _ = map(int, AcknowledgeType)
GROUP = "workers"


class Begun(NamedTuple):
    """A history up to the end of its first server."""

    transcript: Transcript
    cast: ShareCast


def begin(server: ServerProcess) -> Begun:
    """Two members; records that are accepted, rejected and released, and some that are in flight when the server
    stops."""
    transcript = Transcript(server, GROUP)
    cast = ShareCast(transcript, "", 0, {"t": 1})
    readers = ShareReaders(transcript, cast.group, cast.full("t"))
    readers.set()
    cast.join("a joins", "a", "t", changes=7)
    cast.beat("a has its partition", "a")
    cast.join("b joins", "b", "t")
    cast.beat("a stays with b", "a")
    cast.beat("b has its partition", "b")
    readers.produce(4, 6)
    readers.fetch("all", "a")
    readers.acknowledge("some", "a", (0, 1, ACCEPT), (2, 3, RELEASE), (4, 4, REJECT), (6, 6, ACCEPT))
    readers.fetch("what was released", "b")
    readers.acknowledge("one", "b", (2, 2, ACCEPT))
    readers.close("b")
    readers.note_states("before", 4)
    cast.describe("before")
    cast.describe_offsets("offsets before", None)
    server.stop()
    readers.close()
    transcript.close()
    return Begun(transcript, cast)


def go_on(server: ServerProcess, cast: ShareCast) -> Transcript:
    transcript = Transcript(server, GROUP)
    cast.go_on(transcript)
    readers = ShareReaders(transcript, cast.group, cast.full("t"))
    cast.describe("taken over")
    cast.describe_offsets("offsets taken over", None)
    cast.beat("a stays", "a")
    cast.beat("an unknown member is refused", "x", 3)
    readers.fetch("what is left", "a")
    readers.acknowledge("all but one", "a", (3, 3, ACCEPT), (5, 5, ACCEPT), (7, 8, ACCEPT))
    readers.acknowledge("what is done", "a", (6, 6, ACCEPT))
    readers.fetch("nothing for b", "b")
    readers.acknowledge("the last", "a", (9, 9, ACCEPT))
    readers.produce(2)
    readers.fetch("new ones for b", "b")
    readers.acknowledge("new ones", "b", (10, 11, ACCEPT))
    cast.describe_offsets("offsets in the end", None)
    cast.join("c joins", "c", "t")
    cast.leave("a leaves", "a")
    cast.beat("b goes on", "b")
    cast.beat("c goes on", "c")
    cast.describe("in the end")
    readers.close()
    cast.close()
    transcript.close()
    return transcript


def found_in(ours: Transcript, theirs: Transcript) -> list[Found]:
    """What differs but for the leader epoch: Apache Kafka raises it when it stops, too."""
    found = differences(ours.entries, theirs.entries)
    return [one for one in found if not one.field.endswith(".leader_epoch")]


def test_a_share_group_goes_on_with_either_servers_directory(
    need_kafka: None, servers: ExitStack, tmp_path: Path
) -> None:
    kafka = ServerProcess(kafka_command(tmp_path / "theirs", {}), tmp_path / "theirs.log")
    servers.callback(kafka.kill)
    at_kafka = begin(kafka)
    give_logs_to_kmini(tmp_path / "theirs" / "log", tmp_path / "taken")
    twin = at_kafka.cast.twin()
    kafka.start()
    expected = go_on(kafka, at_kafka.cast)
    kafka.stop()

    taker = ServerProcess(kmini_command(tmp_path / "taken", {}), tmp_path / "taker.log")
    servers.callback(taker.kill)
    taken = go_on(taker, twin)
    taker.stop()

    ours = ServerProcess(kmini_command(tmp_path / "ours", {}), tmp_path / "ours.log")
    servers.callback(ours.kill)
    here = begin(ours)
    (tmp_path / "graduated").mkdir()
    graduate(tmp_path / "ours", tmp_path / "graduated" / "log")
    heir = ServerProcess(kafka_command(tmp_path / "graduated", {}), tmp_path / "heir.log")
    servers.callback(heir.kill)
    graduated = go_on(heir, here.cast)
    heir.stop()

    assert differences(here.transcript.entries, at_kafka.transcript.entries) == []
    assert found_in(taken, expected) == [], "Kafka's group on kmini"
    assert found_in(graduated, expected) == [], "kmini's group on Kafka"
