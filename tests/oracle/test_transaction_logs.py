"""What transactions leave behind, as Kafka's DumpLogSegments reads it: the same from both servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
from offset_requests import await_coordinator, commit
from server_process import ServerProcess
from transaction_requests import TransactionalProducer
from transcript import Transcript

Dump = Callable[..., list[str]]


def lives(transcript: Transcript) -> Iterator[TransactionalProducer]:
    """Transactions that commit, abort, interleave, and commit offsets; all under one id after the other."""
    topic, group = transcript.topic, transcript.topic + "g"
    transcript.create(partitions=2)
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
    first.init("once more", producer_id=first.producer_id, epoch=first.epoch)
    first.init("as somebody else")
    yield from (first, second)


def normalised(lines: list[str], names: dict[int, str], topic: str) -> list[str]:
    """The lines of a dump without what each server draws, with producer ids by the names of their owners."""
    kept = []
    for line in lines:
        if not line.startswith(("|", "baseOffset")):
            continue
        text = line.replace(topic, "TOPIC")
        for producer_id, name in names.items():
            text = re.sub(rf"([pP]roducerId\"?: ?){producer_id}\b", rf'\g<1>"{name}"', text)
        text = re.sub(r"\b\d{13}\b", '"a time"', text)
        text = re.sub(r"\"topicId\":\"[^\"]*\"", "a topic id", text)
        text = re.sub(r"(ffset|position|size|crc|partitionLeaderEpoch|coordinatorEpoch|sequence): ?-?\d+", r"\1", text)
        kept.append(re.sub(r"\"transactionPartitions\":(\[.*?\]\}\])", _in_order, text))
    return kept


def _in_order(partitions: re.Match[str]) -> str:
    return str(sorted((each["topic"], sorted(each["partitionIds"])) for each in json.loads(partitions[1])))


@pytest.mark.parametrize("kind", ["__transaction_state", "data", "__consumer_offsets"])
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
        found.append([*dumped(kind, logs, topic, names, dump)])
    ours, theirs = found
    assert ours
    differing = [each for each in zip_longest(ours, theirs) if each[0] != each[1]]
    assert not differing, "\n".join(f"{mine}\n{other}" for mine, other in differing)


def dumped(kind: str, logs: Path, topic: str, names: dict[int, str], dump: Dump) -> Iterator[str]:
    """The lines that concern these transactions, of all partitions of a kind."""
    decoders = {"__transaction_state": "--transaction-log-decoder", "__consumer_offsets": "--offsets-decoder"}
    pattern = f"{topic}-0" if kind == "data" else f"{kind}-*"
    for folder in sorted(logs.glob(pattern)):
        file = folder / f"{0:020d}.log"
        if not file.stat().st_size:
            continue
        options = ["--deep-iteration", *([decoders[kind]] if kind in decoders else ["--print-data-log"])]
        lines = normalised(dump(file, *options), names, topic)
        if kind != "data":
            lines = [line for line in lines if "TOPIC" in line or '"-' in line]
        yield from lines
