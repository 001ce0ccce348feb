"""One partition of a compacted topic of an embedded broker: what tests of the cleaner do with it and look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kmini import Broker
from kmini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, TxnTopic
from kmini.protocol.messages.end_txn import EndTxnRequest
from kmini.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import BatchHeader, build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.testing import Wire

Pair = tuple[str | None, str | None]


class CompactedTopic:
    """Partition 0 of a topic, which is made here unless it is there."""

    def __init__(self, broker: Broker, name: str = "profiles", **configs: str | int) -> None:
        self.broker, self.name = broker, name
        self.directory = Path(broker.data_dir or "") / "broker-1" / f"{name}-0"
        if name not in broker.topics():
            settings = {"cleanup.policy": "compact", **{key.replace("_", "."): value for key, value in configs.items()}}
            broker.create_topic(name, config=settings)

    # Writing

    def put(self, *pairs: Pair, timestamp_ms: int | None = None) -> None:
        """A batch for each key and value."""
        for key, value in pairs:
            self.broker.produce(self.name, _bytes(value), key=_bytes(key), timestamp_ms=timestamp_ms)

    def put_batch(self, *pairs: Pair, timestamp_ms: int | None = None, wire: Wire | None = None, **batch: Any) -> Any:
        """One batch with all of them, over the wire, as a producer sends it; the partition's part of the answer."""
        at = self.broker.clock.now_ms() if timestamp_ms is None else timestamp_ms
        records = build_batch([Record(0, at, _bytes(key), _bytes(value)) for key, value in pairs], **batch)
        return self.send(records, wire=wire)

    def send(self, records: bytearray, *, wire: Wire | None = None, transactional_id: str | None = None) -> Any:
        Topic = ProduceRequest.Topic
        part = Topic(name=self.name, partition_data=[Topic.Partition(index=0, records=records)])
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=5_000, topic_data=[part])
        if wire is not None:
            return wire.ask(request, 9).responses[0].partition_responses[0]
        with Wire(self.broker.bootstrap_servers) as wire:
            return wire.ask(request, 9).responses[0].partition_responses[0]

    def transaction(self, name: str, *pairs: Pair) -> Transaction:
        """A transaction with one batch, still open."""
        return Transaction(self, name, pairs)

    # Looking

    def pairs(self) -> list[Pair]:
        """What a consumer reads from the beginning."""
        return [(_text(record.key), _text(record.value)) for record in self.broker.records(self.name)]

    def files(self) -> list[Path]:
        """The segments, without those that wait to be deleted."""
        return sorted(self.directory.glob("*.log"))

    def batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Every batch in these files, with its records."""
        for path in self.files():
            data = path.read_bytes()
            for position, header in iter_batches(data):
                yield header, decode_records(data, position, header) if header.record_count else []

    def horizons(self) -> list[int]:
        """Of the batches that have one."""
        return [header.base_timestamp for header, _ in self.batches() if header.has_delete_horizon]

    def markers(self) -> int:
        """How many ends of transactions there are."""
        return sum(header.is_control and header.record_count > 0 for header, _ in self.batches())

    def holds(self, value: str) -> bool:
        """Whether any file but those that wait to be deleted has these bytes."""
        files = [path for path in self.directory.iterdir() if path.suffix != ".deleted"]
        return any(value.encode() in path.read_bytes() for path in files)

    def delay_secs(self) -> float:
        return gauge(self.broker, "kafka_log_logcleaner_max_compaction_delay_secs")


class Transaction:
    """One that was begun, and has written; over a connection of its own."""

    def __init__(self, topic: CompactedTopic, name: str, pairs: Iterable[Pair]) -> None:
        self._wire = Wire(topic.broker.bootstrap_servers)
        self._name = name
        self._wire.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[name]), 4)
        producer = self._wire.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000), 4)
        assert producer.error_code == 0, producer
        self._id = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        added = self._wire.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_topics=[TxnTopic(name=topic.name, partitions=[0])],
                **{f"v3_and_below_{key}": value for key, value in self._id.items()},
            ),
            3,
        )
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0, added
        at = topic.broker.clock.now_ms()
        records = [Record(0, at, _bytes(key), _bytes(value)) for key, value in pairs]
        batch = build_batch(records, transactional=True, base_sequence=0, **self._id)
        assert topic.send(batch, wire=self._wire, transactional_id=name).error_code == 0

    def commit(self) -> None:
        self._end(True)

    def abort(self) -> None:
        self._end(False)

    def _end(self, committed: bool) -> None:
        ended = self._wire.ask(EndTxnRequest(transactional_id=self._name, committed=committed, **self._id), 3)
        assert ended.error_code == 0, ended
        self._wire.close()


def gauge(broker: Broker, name: str) -> float:
    """The only sample of this name."""
    (value,) = (
        sample.value
        for family in text_string_to_metric_families(broker.metrics_text())
        for sample in family.samples
        if sample.name == name
    )
    return value


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
