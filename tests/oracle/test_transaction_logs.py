"""What transactions leave behind, as Kafka's DumpLogSegments reads it: the same from both servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from support.batches import Item, batch
from support.kafka_requests import produce
from support.offset_requests import await_coordinator, commit
from support.server_process import ServerProcess
from support.transaction_requests import TransactionalProducer
from support.transcript import Transcript
from support.until import until

Dump = Callable[..., list[str]]

ABORTS = 3
"""That `lives` leaves behind."""
TRANSACTION_INDEX_ENTRY = 34

KEPT = ("|", "baseOffset", "version:", "producerId:")
"""How the lines begin that say something of records, of aborted transactions, and of producers."""
FILES = {"aborted transactions": "*.txnindex", "producers": "*.snapshot"}


def lives(transcript: Transcript) -> Iterator[TransactionalProducer]:
    """Transactions that commit, abort, interleave, and commit offsets; all under one id after the other. The segments
    are so small that transactions lie across them."""
    topic, group = transcript.topic, transcript.topic + "g"
    transcript.create(partitions=2, internal_segment_bytes="200")
    await_coordinator(transcript._wire, group)
    first = TransactionalProducer(transcript, topic + "-first").begin_life()
    second = TransactionalProducer(transcript, topic + "-second").begin_life()
    for number, is_commit in enumerate((True, False)):
        for producer in (first, second):
            what = f"{producer.name} {number}"
            producer.add(f"partitions {what}", topic, 0, 1)
            producer.add_offsets(f"offsets {what}", group)
            producer.produce(f"a batch {what}", topic)
            producer.commit_offset(f"an offset {what}", group, topic, 10 + number)
        transcript.ask(f"a plain commit {number}", commit(group, topic, (0, 5, "plain")), 7)
        second.end(f"the second's end {number}", commit=is_commit)
        first.produce(f"another batch {number}", topic)
        first.end(f"the first's end {number}", commit=not is_commit)
    for number, is_commit in enumerate((True, False)):
        what = f"of the second version {number}"
        second.produce(f"a batch {what}", topic, version=12)
        second.commit_offset(f"an offset {what}", group, topic, 20 + number, version=5)
        second.end(f"the end {what}", commit=is_commit, version=5)
        second.end(f"the end of nothing {what}", commit=False, version=5)
    first.init("once more", producer_id=first.producer_id, epoch=first.epoch)
    first.init("as somebody else")
    for _ in range(3):  # an index is in its file at the latest when the segment is full
        transcript.ask_quietly(produce(topic, batch([Item()])), 11)
    yield from (first, second)


def normalised(lines: list[str], names: dict[int, str], topic: str, *, is_shared: bool) -> list[str]:
    """The lines of a dump without what each server draws, with producer ids by the names of their owners; without
    offsets and sizes where others write too."""
    kept = []
    for line in lines:
        if not line.startswith(KEPT):
            continue
        text = line.replace(topic, "TOPIC")
        for producer_id, name in names.items():
            text = re.sub(rf"([pP]roducerId\"?: ?){producer_id}\b", rf'\g<1>"{name}"', text)
        text = re.sub(r"\b\d{13}\b", '"a time"', text)
        text = re.sub(r"\"topicId\":\"[^\"]*\"", "a topic id", text)
        text = re.sub(r"(crc|partitionLeaderEpoch|coordinatorEpoch): ?-?\d+", r"\1", text)
        if is_shared:
            text = re.sub(r"(ffset|position|size|sequence): ?-?\d+", r"\1", text)
        kept.append(re.sub(r"\"transactionPartitions\":(\[.*?\]\}\])", _in_order, text))
    return kept


def _in_order(partitions: re.Match[str]) -> str:
    return str(sorted((each["topic"], sorted(each["partitionIds"])) for each in json.loads(partitions[1])))


@pytest.mark.parametrize("kind", ["__transaction_state", "__consumer_offsets", "data", *FILES])
def test_both_servers_keep_the_same(
    server: ServerProcess,
    apache_kafka_server: ServerProcess,
    against_kafka: bool,
    dump: Dump,
    topic_names: Callable[[str], str],
    kind: str,
) -> None:
    if against_kafka:
        pytest.skip("one server")
    topic = topic_names("kept")
    found = []
    for each in (server, apache_kafka_server):
        transcript = Transcript(each, topic)
        try:
            names = {one.producer_id: one.name.removeprefix(topic) for one in lives(transcript)}
        finally:
            transcript.close()
        data = Path(each.command[each.command.index("--data-dir") + 1])
        logs = data / "log" if each is apache_kafka_server else next(data.glob("broker-*"))
        wait_for_indexes(logs / f"{topic}-0")
        found.append([*lines_of(kind, logs, topic, names, dump)])
    ours, theirs = found
    assert ours
    differing = [each for each in zip_longest(ours, theirs) if each[0] != each[1]]
    assert not differing, "\n".join(f"{mine}\n{other}" for mine, other in differing)


def wait_for_indexes(folder: Path) -> None:
    """Until the indexes of full segments are in their files: ours get there behind the requests."""

    def entries() -> int:
        return sum(file.stat().st_size for file in folder.glob("*.txnindex")) // TRANSACTION_INDEX_ENTRY

    until(lambda: entries() == ABORTS, lambda: f"{entries()} aborts in the indexes of {folder}")


def lines_of(kind: str, logs: Path, topic: str, names: dict[int, str], dump: Dump) -> Iterator[str]:
    """The lines that concern these transactions, of all partitions of a kind."""
    decoders = {"__transaction_state": "--transaction-log-decoder", "__consumer_offsets": "--offsets-decoder"}
    is_shared = kind in decoders
    for folder in sorted(logs.glob(f"{kind}-*" if is_shared else f"{topic}-0")):
        for file in sorted(folder.glob(FILES.get(kind, "*.log"))):
            if not file.stat().st_size:
                continue
            decoder = decoders.get(kind, "--print-data-log")
            dumped = dump(file, "--deep-iteration", decoder, may_be_compacted=is_shared)
            lines = normalised(dumped, names, topic, is_shared=is_shared)
            if is_shared:
                lines = [line for line in lines if "TOPIC" in line or '"-' in line]
            else:
                yield file.name
            # Kafka writes the producers of a snapshot in the order of a hash table of their ids.
            yield from sorted(lines) if kind == "producers" else lines
