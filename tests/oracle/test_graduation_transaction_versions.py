"""Transactions of the second version (KIP-890) are handed on with their broker's directory: by Apache Kafka to kmini,
and by `kmini graduate` the other way round. Their producers go on as they do on a Kafka that is started again.

Epochs are exhausted after 32,766 transactions: ids that are so far are written to `__transaction_state` as records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kmini.broker.coordinators.coordinator_topic import partition_for
from kmini.broker.transactions.transaction_records import Entry, decode_entry, decode_key, encode_entry, encode_key
from kmini.broker.transactions.transaction_states import EMPTY, PREPARE_COMMIT
from kmini.protocol.topics import TRANSACTION_STATE, TopicPartition
from support.apache_kafka import give_logs_to_kmini
from support.batches import Item, batch
from support.kafka_requests import fetch, produce
from support.oracle.graduated import graduate
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.transaction_logs import note_log, note_producers
from support.transaction_requests import TransactionalProducer, init
from support.transcript import Transcript, differences
from support.wire import Wire

TOPIC = "orders"
NAMES = ("open", "ended", "exhausted", "decided")
LAST_EPOCH = 32766
"""Of a producer: the coordinator ends its transaction with the next one."""
PARTITIONS = 8
"""Of `__transaction_state`, on both servers."""

Identities = dict[str, tuple[int, int]]
"""Producer ids and epochs by transactional id."""


@contextmanager
def talk(server: ServerProcess) -> Iterator[Transcript]:
    transcript = Transcript(server, TOPIC)
    try:
        yield transcript
    finally:
        transcript.close()


def begin(server: ServerProcess) -> tuple[Transcript, Identities]:
    """Leave an open transaction, one that has ended, an id that has its last epoch, and one whose last transaction is
    decided, and has the next producer id."""
    with talk(server) as transcript:
        transcript.create(partitions=2)
        producers = {name: TransactionalProducer(transcript, name).begin_life() for name in NAMES}
        producers["open"].produce("a batch of an open one", TOPIC, version=12)
        producers["ended"].produce("a batch", TOPIC, version=12)
        identities = {name: (producer.producer_id, producer.epoch) for name, producer in producers.items()}
        producers["ended"].end("the end", commit=True, version=5)
        note_entries(transcript, "before", identities)
        now_ms = time.time_ns() // 1_000_000
        last = Entry(identities["exhausted"][0], LAST_EPOCH, 60_000, EMPTY, frozenset(), now_ms)
        write_entry(server, "exhausted", last)
        decided = Entry(
            producer_id=identities["decided"][0],
            producer_epoch=LAST_EPOCH + 1,
            timeout_ms=60_000,
            state=PREPARE_COMMIT,
            partitions=frozenset({TopicPartition(TOPIC, 1)}),
            last_update_ms=now_ms,
            start_ms=now_ms,
            previous_producer_id=identities["decided"][0],
            next_producer_id=transcript.ask_quietly(init(None), 4).producer_id,
            client_version=2,
        )
        write_entry(server, "decided", decided)
        identities["exhausted"] = identities["exhausted"][0], LAST_EPOCH
        identities["decided"] = identities["decided"][0], LAST_EPOCH
    return transcript, identities


def write_entry(server: ServerProcess, name: str, entry: Entry) -> None:
    """Write a record of `__transaction_state` as an administrator: a coordinator that starts loads it."""
    record = Item(encode_key(name), encode_entry(entry, 1))
    built = batch([record], base_timestamp=entry.last_update_ms)
    with Wire(server.host, server.port, client_id="__admin_client") as wire:
        request = produce(TRANSACTION_STATE, built, partition=partition_for(name, PARTITIONS))
        (answer,) = wire.ask(request, 11).responses[0].partition_responses
    assert answer.error_code == 0, answer


def note_entries(transcript: Transcript, what: str, identities: Identities) -> None:
    """What is stored of each id, with producer ids by the names of their first owners."""
    owners = {producer_id: name for name, (producer_id, _) in identities.items()} | {-1: "none"}
    for name in NAMES:
        number = partition_for(name, PARTITIONS)
        answer = transcript.ask_quietly(fetch(TRANSACTION_STATE, 0, partition=number), 11)
        transcript.note(f"stored of {name}, {what}", _entries(answer, name, owners))


def _entries(answer: object, name: str, owners: dict[int, str]) -> list[object]:
    from kafka.record import MemoryRecords

    stored = MemoryRecords(bytes(answer.responses[0].partitions[0].records))  # type: ignore[attr-defined]
    found: list[object] = []
    while stored.has_next():
        for record in stored.next_batch():
            if decode_key(record.key) != name:
                continue
            entry = decode_entry(record.value)
            ids = (entry.producer_id, entry.previous_producer_id, entry.next_producer_id)
            found.append(
                (
                    entry.state.wire_name,
                    entry.producer_epoch,
                    [owners.setdefault(one, f"another of {name}") for one in ids],
                    entry.timeout_ms,
                    entry.client_version,
                    sorted(map(str, entry.partitions)),
                    entry.start_ms > 0,
                )
            )
    return found


def go_on(server: ServerProcess, identities: Identities) -> Transcript:
    with talk(server) as transcript:
        producers = {name: TransactionalProducer(transcript, name) for name in NAMES}
        for name, producer in producers.items():
            producer.producer_id, producer.epoch = identities[name]
            producer.wait()
        note_log(transcript, "taken over", TOPIC)
        note_producers(transcript, "taken over", TOPIC)
        producers["open"].sequence = 1
        producers["open"].produce("another batch of the open one", TOPIC, version=12)
        producers["open"].end("the end of the open one", commit=True, version=5)
        producers["ended"].end("the end again", commit=True, version=5)
        for name in ("exhausted", "decided"):
            producer = producers[name]
            last = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
            if name == "exhausted":
                producer.produce("a batch with the last epoch", TOPIC, version=12)
            producer.end(f"the end of {name}", commit=True, version=5)
            producer.end(f"the end of {name} again", commit=True, version=5, **last)
            producer.end(
                f"the end of {name} with an older epoch", commit=True, version=5, **last | {"producer_epoch": 9}
            )
            producer.end(f"the other end of {name}", commit=False, version=5, **last)
            producer.produce(f"a late batch of {name}", TOPIC, version=12, **last, base_sequence=1)
        for name, producer in producers.items():
            producer.produce(f"the next batch of {name}", TOPIC, version=12)
            producer.produce(f"the next batch of {name} elsewhere", TOPIC, partition=1, version=12, base_sequence=0)
            producer.end(f"the next end of {name}", commit=True, version=5)
            producer_id, epoch = identities[name]
            producer.init(f"the former {name} comes back", producer_id=producer_id, epoch=epoch)
        note_entries(transcript, "in the end", identities)
        note_log(transcript, "in the end", TOPIC)
        note_producers(transcript, "in the end", TOPIC)
    return transcript


def differing(ours: Transcript, theirs: Transcript) -> list[str]:
    """In which answers two transcripts differ, but for leader epochs: one for each start of a server."""
    found = differences(ours.entries, theirs.entries)
    return [str(one) for one in found if not one.field.endswith("leader_epoch")]


def test_producers_go_on_with_either_servers_directory(need_kafka: None, servers: ExitStack, tmp_path: Path) -> None:
    kafka = ServerProcess(kafka_command(tmp_path / "theirs", {}), tmp_path / "theirs.log")
    servers.callback(kafka.kill)
    begun_there, identities_there = begin(kafka)
    kafka.stop()
    give_logs_to_kmini(tmp_path / "theirs" / "log", tmp_path / "taken")
    kafka.start()
    expected = go_on(kafka, identities_there)
    kafka.stop()

    taker = ServerProcess(kmini_command(tmp_path / "taken", {}), tmp_path / "taker.log")
    servers.callback(taker.kill)
    taken = go_on(taker, identities_there)
    taker.stop()

    ours = ServerProcess(kmini_command(tmp_path / "ours", {}), tmp_path / "ours.log")
    servers.callback(ours.kill)
    begun_here, identities_here = begin(ours)
    ours.stop()
    (tmp_path / "graduated").mkdir()
    graduate(tmp_path / "ours", tmp_path / "graduated" / "log")
    heir = ServerProcess(kafka_command(tmp_path / "graduated", {}), tmp_path / "heir.log")
    servers.callback(heir.kill)
    graduated = go_on(heir, identities_here)
    heir.stop()

    assert differing(begun_here, begun_there) == []
    assert differing(taken, expected) == [], "Kafka's transactions on kmini"
    assert differing(graduated, expected) == [], "kmini's transactions on Kafka"
