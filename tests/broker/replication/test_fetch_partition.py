"""One partition of a fetch: offsets, whole batches, leader epochs, replica ids, and read_committed."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import (
    NONE,
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import ValidatedRecords
from support.broker.fetching import append, of, request, values


async def test_offsets_outside_the_log_are_out_of_range_and_its_end_is_not(
    broker: BrokerServer, topic: str, ask
) -> None:
    append(broker, topic, b"a")
    for offset in (-1, 2, 1 << 60):
        assert of(await ask(broker, request(offset=offset), 12)).error_code == OffsetOutOfRange.code
    assert of(await ask(broker, request(offset=1), 12)).error_code == NONE


async def test_an_offset_within_a_batch_gets_the_whole_batch(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"a", b"b", b"c")
    assert values(of(await ask(broker, request(offset=2), 12))) == [b"a", b"b", b"c"]


async def test_the_first_batch_is_whole_whatever_the_limits(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"x" * 5_000)
    append(broker, topic, b"y" * 5_000)
    answer = of(await ask(broker, request(max_bytes=1, partition_max_bytes=1), 12))
    assert values(answer) == [b"x" * 5_000]
    assert len(answer.records) == next(iter_batches(answer.records))[1].size


async def test_leader_epochs_that_are_not_ours_are_refused(broker: BrokerServer, topic: str, ask) -> None:
    assert of(await ask(broker, request(current_leader_epoch=0), 12)).error_code == NONE
    assert of(await ask(broker, request(current_leader_epoch=1), 12)).error_code == UnknownLeaderEpoch.code
    broker.replica_manager.partitions[TopicPartition(topic, 0)].leader_epoch = 5
    assert of(await ask(broker, request(current_leader_epoch=4), 12)).error_code == FencedLeaderEpoch.code


async def test_a_reader_from_a_later_epoch_is_told_where_it_diverged(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"a")
    answer = of(await ask(broker, request(offset=1, last_fetched_epoch=0), 12))
    assert (answer.error_code, answer.diverging_epoch) == (NONE, None)
    answer = of(await ask(broker, request(offset=5, last_fetched_epoch=0), 12))
    assert answer.error_code == NONE
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert not answer.records
    answer = of(await ask(broker, request(offset=1, last_fetched_epoch=3), 12))
    assert answer.error_code == OffsetOutOfRange.code


async def test_a_client_cannot_read_as_a_replica(broker: BrokerServer, topic: str, ask) -> None:
    assert of(await ask(broker, request(replica_id=2), 12)).error_code == NotLeaderOrFollower.code
    assert (
        of(await ask(broker, request(replica_id=2, current_leader_epoch=0), 12)).error_code == UnknownLeaderEpoch.code
    )


async def test_read_committed_gets_a_list_of_aborted_transactions_and_others_get_none(
    broker: BrokerServer, topic: str, ask
) -> None:
    append(broker, topic, b"a")
    assert of(await ask(broker, request(), 12)).aborted_transactions is None
    assert of(await ask(broker, request(isolation_level=1), 12)).aborted_transactions == []


async def test_read_committed_gets_the_aborted_transactions_and_reads_to_the_first_open_one(
    broker: BrokerServer, topic: str, ask
) -> None:
    log = broker.replica_manager.leader_of(TopicPartition(topic, 0)).log

    def write(batch: bytearray, origin: Origin = Origin.CLIENT) -> None:
        log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=1_000, origin=origin)
        log.update_high_watermark(log.log_end_offset)

    for producer_id in (7, 8):
        record = Record(0, 1_000, None, b"undecided")
        write(build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True))
    abort = EndTransactionMarker(is_abort=True, coordinator_epoch=0)
    marker = build_end_transaction_marker(abort, producer_id=7, producer_epoch=0, timestamp=1_000)
    write(marker, Origin.COORDINATOR)
    answer = of(await ask(broker, request(isolation_level=1), 12))
    assert (answer.last_stable_offset, answer.high_watermark) == (1, 3)
    assert [batch.next_offset for _, batch in iter_batches(answer.records)] == [1]
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [(7, 0)]
