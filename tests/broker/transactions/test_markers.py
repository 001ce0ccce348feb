"""Transaction markers in the partitions that a broker leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmini.broker.controller import elections
from kmini.broker.coordinators.coordinator_topic import Producer
from kmini.broker.transactions.markers import Marker
from kmini.protocol.errors import (
    NONE,
    InvalidProducerEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    UnknownTopicOrPartition,
)
from kmini.protocol.topics import TopicPartition
from support.broker.lone_broker import OTHER, T0, shared_partition, start_alone
from support.broker.transaction_bank import ORDERS, PARTITIONS, Bank


async def test_a_marker_ends_the_transaction_of_a_partition(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    bank.write(producer, b"a")
    assert bank.last_stable_offset() == 0
    assert await bank.broker.marker_writer.write(Marker(producer, False, 3), [ORDERS]) == {ORDERS: NONE}
    assert bank.last_stable_offset() == 2
    assert bank.markers() == [("abort", producer, 3)]


async def test_each_partition_has_its_own_outcome(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await bank.init()

    def refuse(*_: object) -> None:
        raise KafkaStorageError("the disk is full")

    unknown = TopicPartition("no-such", 0)
    monkeypatch.setattr(bank.broker.replica_manager.partitions[PARTITIONS[1]], "append", refuse)
    assert await bank.broker.marker_writer.write(Marker(producer, True, 0), [*PARTITIONS, unknown]) == {
        PARTITIONS[0]: NONE,
        PARTITIONS[1]: KafkaStorageError.code,
        PARTITIONS[2]: NONE,
        unknown: UnknownTopicOrPartition.code,
    }


@pytest.mark.sockets
@pytest.mark.parametrize(("transaction_version", "expected"), [(1, NONE), (2, InvalidProducerEpoch.code)])
async def test_where_each_transaction_has_its_epoch_a_late_marker_does_not_end_the_present_one(
    bank: Bank, transaction_version: int, expected: int
) -> None:
    """KIP-1228: the marker has the epoch of the transaction that is open, not a greater one."""
    producer = await bank.init()
    await bank.begin(producer)
    bank.write(producer, b"a")
    late = Marker(producer, True, 0, transaction_version)
    assert await bank.broker.marker_writer.write(late, [ORDERS]) == {ORDERS: expected}
    assert bank.last_stable_offset() == (2 if expected == NONE else 0)


async def test_a_repeated_marker_of_an_ended_transaction_passes(bank: Bank) -> None:
    producer = await bank.init()
    bank.write(producer, b"a")
    marker = Marker(producer._replace(epoch=producer.epoch + 1), True, 0, 2)
    for _ in range(2):
        assert await bank.broker.marker_writer.write(marker, [ORDERS]) == {ORDERS: NONE}


async def test_a_marker_is_refused_while_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    """Else one more failure could take back the end of a transaction."""
    broker = await start_alone(str(tmp_path))
    try:
        partition = shared_partition(broker, min_insync_replicas="2")
        elections.leave(broker.controller, OTHER)
        codes = await broker.marker_writer.write(Marker(Producer(7, 0), True, 1), [T0])
        assert (codes, partition.log.log_end_offset) == ({T0: NotEnoughReplicas.code}, 0)
    finally:
        await broker.stop()
