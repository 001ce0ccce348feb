"""The cleaner of a running broker."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.controller.config_changes import set_topic_configs
from kmini.broker.controller.topology import PartitionState
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.cleaner.cleaning_states import State
from kmini.storage.cleaner.stats import PassReport
from kmini.storage.cleaner.worker import CleaningWork
from kmini.storage.log_config import LogConfig
from kmini.storage.validation import ValidatedRecords
from support.broker.compacting_brokers import (
    COMPACTED,
    LED_BY_1,
    P,
    clean_up,
    compacting_brokers,
    gauges,
    keys,
    passes,
    put,
    writing,
)

OTHER = TopicPartition("other", 0)
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Any]:
    """A maker of brokers with a clock that can be moved, and of one compacted topic."""
    async with compacting_brokers(tmp_path) as start:
        yield start


async def test_compact_leaves_the_newest_record_of_every_key(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("b", "1"), ("a", "2"))
    (report,) = await broker.cleaner.compact(P)
    assert keys(broker) == ["b", "a"]
    assert (report.records_read, report.records_kept) == (3, 2)
    assert (Path(broker.logs.directory) / "cleaner-offset-checkpoint").read_text() == "0\n1\nprofiles 0 3\n"


@pytest.mark.parametrize(
    ("cores", "load", "compiled", "helps"),
    [(4, 0.5, True, True), (4, 2.5, True, False), (2, 0.5, True, False), (4, 0.5, False, False)],
)
async def test_a_second_thread_helps_where_a_core_is_free(
    start: Any, monkeypatch: pytest.MonkeyPatch, cores: int, load: float, compiled: bool, helps: bool
) -> None:
    limits = []

    class Watched(CleaningWork):
        def __init__(self, job: Any, now_ms: int, limit: Any, *more: Any) -> None:
            limits.append(limit)
            super().__init__(job, now_ms, limit, *more)

    monkeypatch.setattr("kmini.storage.cleaner.worker.CleaningWork", Watched)
    monkeypatch.setattr("kmini.broker.log_cleaner.IS_COMPILED", compiled)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    await broker.cleaner.compact(P)
    assert [limit.sifts_ahead for limit in limits] == [helps]


async def test_a_rolled_segment_is_cleaned_after_a_back_off(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    broker.replica_manager.partitions[P].log.roll(broker.clock.now_ms())
    put(broker, ("a", "3"))
    await broker.clock.advance(15_000)
    assert keys(broker) == ["a", "a"]


async def test_an_idle_log_keeps_the_bound(start: Any) -> None:
    """KIP-354: nothing is appended any more, and what is superseded is gone within the lag and a back-off."""
    broker = await start(max_compaction_lag_ms=3_600_000)
    put(broker, ("a", "1"), ("a", "2"))
    await broker.clock.advance(3_600_000 - 60_000)
    assert keys(broker) == ["a", "a"]
    await broker.clock.advance(60_000 + 2 * 15_000)
    assert keys(broker) == ["a"]


async def test_a_log_that_is_idle_since_a_moment_after_a_look_keeps_the_bound(start: Any) -> None:
    """The other tasks that changes ask for are under way already, on behalf of another topic."""
    broker = await start(max_compaction_lag_ms=3_600_000)
    broker.replica_manager.host(OTHER, bytes(range(1, 17)), LogConfig(), PartitionState((1,), (1,), 1))
    await broker.clock.advance(12_000)
    record = Record(0, broker.clock.now_ms(), b"a", b"1")
    broker.replica_manager.partitions[OTHER].append(ValidatedRecords.of(build_batch([record])), broker.clock.now_ms())
    await broker.clock.advance(4_000)
    put(broker, ("a", "1"), ("a", "2"))
    await broker.clock.advance(3_600_000 + 2 * 15_000)
    assert keys(broker) == ["a"]


async def test_a_tombstone_goes_with_its_horizon_though_nothing_is_written(start: Any) -> None:
    broker = await start(max_compaction_lag_ms=1_000, delete_retention_ms=86_400_000)
    put(broker, ("a", "1"), ("a", None))
    await broker.clock.advance(60_000)
    assert keys(broker) == ["a"]
    await broker.clock.advance(WEEK_MS)
    assert keys(broker) == []


async def test_a_horizon_that_passes_at_the_end_of_a_look_is_found_by_the_next_look(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look found nothing to clean at a moment before the horizon, and asks for the next look at a moment after."""
    broker = await start(max_compaction_lag_ms=1_000, delete_retention_ms=86_400_000)
    put(broker, ("a", "1"), ("a", None))
    await broker.clock.advance(60_000)
    horizon_ms = broker.cleaner.schedule.next_due_ms(broker.logs.logs, broker.clock.now_ms())
    pick, moments = broker.cleaner.schedule.pick, []

    def slow_pick(*arguments: Any) -> Any:
        job = pick(*arguments)
        if not moments:
            moments.append(broker.clock.now_ms())
            broker.clock._ahead_ms += 1_000
        return job

    monkeypatch.setattr(broker.cleaner.schedule, "pick", slow_pick)
    broker.cleaner.ask(horizon_ms - broker.clock.now_ms() - 500)
    await broker.clock.advance(WEEK_MS)
    assert moments[0] < horizon_ms < moments[0] + 1_000
    assert keys(broker) == []


async def test_a_topic_that_is_deleted_meanwhile_is_no_failure(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    broker.replica_manager.partitions[P].log.roll(broker.clock.now_ms())
    broker.replica_manager.drop(P)
    await broker.cleaner.look()
    assert broker.cleaner.schedule.uncleanable() == {}


async def test_a_damaged_log_is_said_to_be(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    broker.replica_manager.partitions[P].log.segments.active.log.write_at(65, b"\xff")
    with pytest.raises(KafkaStorageError, match="position 0"):
        await broker.cleaner.compact(P)
    put(broker, ("a", "3"))


async def test_a_broker_that_stops_ends_its_passes(start: Any) -> None:
    broker = await start()
    put(broker, *[(f"{number}", "1") for number in range(300)])
    broker.replica_manager.partitions[P].log.roll(broker.clock.now_ms())
    looking = asyncio.ensure_future(broker.cleaner.look())
    await asyncio.sleep(0)
    await broker.cleaner.stop()
    await looking
    assert broker.cleaner.may_touch(P)


async def test_horizons_are_found_again_after_a_start(tmp_path: Path) -> None:
    configs = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    clock = MovableClock()
    first = await BrokerServer.start(BrokerConfig.parse(configs), str(tmp_path), clock=clock)
    topics.create(first, "profiles", configs={"cleanup.policy": "compact", "delete.retention.ms": "3600000"})
    put(first, ("a", None), ("b", "1"))
    (report,) = await first.cleaner.compact(P)
    assert report.tombstones_waiting == 1
    await first.stop()
    second = await BrokerServer.start(BrokerConfig.parse(configs), str(tmp_path), clock=clock)
    assert keys(second) == ["a", "b"]
    await clock.advance(3_700_000)
    assert keys(second) == ["b"]
    await second.stop()


# --- what others do to logs while a pass runs


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldPass]:
    """Every pass waits at its first read until it is let go."""
    pass_ = HeldPass()
    original = CleaningWork.on_bytes

    def on_bytes(work: CleaningWork, count: int) -> None:
        pass_.has_begun.set()
        assert pass_.may_go_on.wait(30)
        original(work, count)

    monkeypatch.setattr(CleaningWork, "on_bytes", on_bytes)
    yield pass_
    pass_.may_go_on.set()


class HeldPass:
    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()

    async def begun(self) -> None:
        assert await asyncio.to_thread(self.has_begun.wait, 30)


def files(broker: BrokerServer, suffix: str) -> list[str]:
    return [path.name for path in Path(broker.logs.directory).rglob(f"*{suffix}")]


@pytest.mark.sockets
async def test_a_pass_over_a_topic_that_is_deleted_is_aborted(start: Any, held: HeldPass) -> None:
    broker = await start()
    looking = clean_up(broker)
    await held.begun()
    states = broker.cleaner.schedule.states
    assert states[P] is State.IN_PROGRESS
    broker.replica_manager.drop(P)
    assert states[P] is State.ABORTED
    held.may_go_on.set()
    await looking
    assert (states[P], broker.cleaner.schedule.uncleanable()) == (State.IDLE, {})


@pytest.mark.sockets
async def test_a_topic_of_the_same_name_is_cleaned_when_the_pass_over_the_old_one_has_ended(
    start: Any, held: HeldPass
) -> None:
    broker = await start()
    looking = clean_up(broker)
    await held.begun()
    broker.replica_manager.drop(P)
    broker.replica_manager.host(P, bytes(range(1, 17)), COMPACTED, LED_BY_1)
    put(broker, ("b", "1"), ("b", "2"))
    compacting = asyncio.ensure_future(broker.cleaner.compact(P))
    await asyncio.sleep(0)
    assert not compacting.done()
    held.may_go_on.set()
    await looking
    await compacting
    assert keys(broker) == ["b"]


@pytest.mark.sockets
async def test_a_pass_over_a_topic_that_is_no_longer_compacted_is_aborted(start: Any, held: HeldPass) -> None:
    broker = await start()
    topics.create(broker, "t", configs={"cleanup.policy": "compact"})
    partition = TopicPartition("t", 0)
    for value in (b"1", b"2"):
        validated = ValidatedRecords.of(build_batch([Record(0, broker.clock.now_ms(), b"a", value)]))
        broker.replica_manager.partitions[partition].append(validated, broker.clock.now_ms())
    broker.replica_manager.roll(broker.replica_manager.partitions[partition])
    looking = asyncio.ensure_future(broker.cleaner.look())
    await held.begun()
    topic = broker.controller.topic("t")
    assert topic is not None
    set_topic_configs(broker.controller, topic, {"cleanup.policy": "delete"})
    assert broker.cleaner.schedule.states[partition] is State.ABORTED
    held.may_go_on.set()
    await looking
    log = broker.replica_manager.partitions[partition].log
    assert [batch.base_offset for segment in log.segments for _, batch, _ in segment.batches()] == [0, 1]
    assert files(broker, ".cleaned") == []


@pytest.mark.sockets
async def test_truncation_waits_for_the_pass_to_end_and_lowers_the_checkpoint(start: Any, held: HeldPass) -> None:
    broker = await start()
    held.may_go_on.set()
    put(broker, ("a", "1"), ("b", "1"))
    await broker.cleaner.compact(P)
    assert broker.cleaner.schedule.checkpoint.get(P) == 2
    held.may_go_on.clear()
    held.has_begun.clear()
    looking = clean_up(broker)
    await held.begun()
    truncating = asyncio.ensure_future(broker.cleaner.truncate(P, 1))
    await asyncio.sleep(0)
    assert (truncating.done(), broker.replica_manager.partitions[P].log.log_end_offset) == (False, 5)
    held.may_go_on.set()
    await looking
    await truncating
    assert (broker.replica_manager.partitions[P].log.log_end_offset, keys(broker)) == (1, ["a"])
    assert broker.cleaner.schedule.checkpoint.get(P) == 0
    assert (Path(broker.logs.directory) / "cleaner-offset-checkpoint").read_text() == "0\n1\nprofiles 0 0\n"
    assert broker.cleaner.schedule.states[P] is State.IDLE


async def test_the_checkpoint_says_no_more_than_is_there_before_a_log_is_truncated(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("b", "1"))
    log = broker.logs.logs[P]
    log.flush()
    await broker.maintenance.recovery_point_checkpoint.write()
    checkpoint = Path(broker.logs.directory) / "recovery-point-offset-checkpoint"
    assert checkpoint.read_text().endswith("profiles 0 2\n")
    said = []
    monkeypatch.setattr(type(log), "truncate_to", lambda _, offset: said.append((offset, checkpoint.read_text())))
    await broker.cleaner.truncate(P, 1)
    ((offset, text),) = said
    assert offset == 1
    assert text.endswith("profiles 0 1\n")


async def test_the_checkpoint_says_that_a_log_is_on_the_disk_before_it_is_cleaned(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pass leaves out is missing below the recovery point only: above it, that is a loss."""
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    checkpoint = Path(broker.logs.directory) / "recovery-point-offset-checkpoint"
    said = []
    run = CleaningWork.run

    def watched(self: CleaningWork, swap: Any) -> None:
        said.append(checkpoint.read_text())
        run(self, swap)

    monkeypatch.setattr(CleaningWork, "run", watched)
    await broker.cleaner.compact(P)
    (text,) = said
    assert text.endswith("profiles 0 2\n")


async def test_what_is_paused_is_compacted_when_the_pause_ends(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    async with broker.cleaner.paused(P):
        compacting = asyncio.ensure_future(broker.cleaner.compact(P))
        await broker.cleaner.look()
        assert (keys(broker), compacting.done()) == (["a", "a"], False)
    await compacting
    assert keys(broker) == ["a"]


# --- what is wrong


async def test_a_damaged_segment_costs_its_partition_and_says_where(
    start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """File and position in the log line, the partition in the gauges; all others go on."""
    broker = await start()
    other = TopicPartition("other", 0)
    broker.replica_manager.host(other, bytes(range(1, 17)), COMPACTED, LED_BY_1)
    for partition in (P, other):
        for value in (b"1", b"2"):
            validated = ValidatedRecords.of(build_batch([Record(0, broker.clock.now_ms(), b"a", value)]))
            broker.replica_manager.partitions[partition].append(validated, broker.clock.now_ms())
        broker.replica_manager.roll(broker.replica_manager.partitions[partition])
    log = broker.replica_manager.partitions[P].log
    second = next(iter(log.segments)).size // 2
    log.segments.oldest.log.write_at(second + 65, b"\xff")
    await broker.cleaner.look()
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert f"{log.segments.oldest.log.path}: there is a batch with a wrong checksum at position {second}" in line
    told = gauges(broker)
    assert told["uncleanable_partitions_count"] == 1
    assert told["uncleanable_bytes"] == 2 * second
    assert told["max_dirty_percent"] == 100
    assert len(list(broker.replica_manager.partitions[other].log.segments.oldest.batches())) == 1
    put(broker, ("b", "1"))


async def test_a_topic_that_is_made_anew_is_cleaned_from_its_start(start: Any) -> None:
    broker = await start()
    checkpoint = Path(broker.logs.directory) / "cleaner-offset-checkpoint"
    put(broker, ("a", "1"), ("a", "2"))
    await broker.cleaner.compact(P)
    assert "profiles 0 2" in checkpoint.read_text()
    broker.replica_manager.drop(P)
    broker.replica_manager.host(P, bytes(range(1, 17)), COMPACTED, LED_BY_1)
    await broker.clock.advance(1)
    assert "profiles" not in checkpoint.read_text()
    put(broker, ("b", "1"), ("b", "2"), ("b", "3"))
    await broker.cleaner.compact(P)
    assert keys(broker) == ["b"]


async def test_what_is_damaged_so_that_its_age_cannot_be_told_costs_its_partition_only(start: Any) -> None:
    broker = await start(max_compaction_lag_ms=3_600_000)
    put(broker, ("a", "1"))
    broker.replica_manager.roll(broker.replica_manager.partitions[P])
    broker.replica_manager.partitions[P].log.segments.oldest.log.write_at(16, b"\x09")
    await broker.cleaner.look()
    assert P in broker.cleaner.schedule.uncleanable()
    await broker.clock.advance(WEEK_MS)
    told = gauges(broker)
    assert (told["uncleanable_partitions_count"], told["deadthreadcount"]) == (1, 0)
    assert told["uncleanable_bytes"] == broker.replica_manager.partitions[P].log.size_bytes


async def test_a_damaged_horizon_after_a_start_makes_its_partition_uncleanable(start: Any) -> None:
    broker = await start()
    put(broker, ("a", None))
    await broker.cleaner.compact(P)
    broker.cleaner.schedule.forget_all_but([])
    broker.cleaner.schedule.checkpoint.set(P, 1)
    broker.replica_manager.partitions[P].log.segments.oldest.log.write_at(8, b"\xff")
    await broker.cleaner.look()
    assert "position 0" in broker.cleaner.schedule.uncleanable()[P]


async def test_a_map_without_room_for_a_key_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.cleaner.dedupe.buffer.size": "20"}
    broker = await BrokerServer.start(BrokerConfig.parse(settings), str(tmp_path), clock=MovableClock())
    broker.replica_manager.host(P, bytes(range(16)), COMPACTED, LED_BY_1)
    put(broker, ("a", "1"))
    with pytest.raises(KafkaStorageError, match=r"raise log\.cleaner\.dedupe\.buffer\.size"):
        await broker.cleaner.compact(P)
    await broker.stop()


async def test_a_map_too_small_for_a_segment_takes_more_passes(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.cleaner.dedupe.buffer.size": "120"}
    broker = await BrokerServer.start(BrokerConfig.parse(settings), str(tmp_path), clock=MovableClock())
    broker.replica_manager.host(P, bytes(range(16)), COMPACTED, LED_BY_1)
    put(broker, *[(f"{number % 6}", "1") for number in range(24)])
    reports = await broker.cleaner.compact(P)
    assert len(reports) > 1
    assert sum(report.superseded for report in reports) == 18
    assert sorted(keys(broker)) == [f"{number}" for number in range(6)]
    await broker.stop()


async def test_a_checkpoint_that_cannot_be_right_is_corrected_on_the_disk_at_once(start: Any) -> None:
    """As Apache Kafka does it: whoever takes over the directory finds what holds."""
    broker = await start(min_cleanable_dirty_ratio=1.0)
    put(broker, ("a", "1"))
    broker.cleaner.schedule.checkpoint.set(P, 7)
    await broker.cleaner.look()
    assert (Path(broker.logs.directory) / "cleaner-offset-checkpoint").read_text() == "0\n1\nprofiles 0 0\n"


async def test_a_look_that_fails_is_followed_by_another(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    broker.replica_manager.roll(broker.replica_manager.partitions[P])
    schedule = broker.cleaner.schedule
    with monkeypatch.context() as patched:
        patched.setattr(schedule, "pick", lambda *_: 1 / 0)
        await broker.clock.advance(16_000)
        assert gauges(broker)["deadthreadcount"] == 1
    await broker.clock.advance(16_000)
    assert (gauges(broker)["deadthreadcount"], keys(broker)) == (0, ["a"])


async def test_what_clients_write_while_the_clock_is_moved_is_cleaned_once_when_it_has_been(start: Any) -> None:
    broker = await start(segment_ms=1_000, min_cleanable_dirty_ratio=0.01)
    put(broker, ("a", "1"), ("a", "2"))
    found = passes(broker)
    began_ms = broker.clock.now_ms()
    async with writing(broker):
        await broker.clock.advance("30d")
    assert len(found) == 2
    (first_ms, first_end), (last_ms, last_end) = found
    assert first_ms < began_ms + 60_000 < began_ms + 30 * DAY_MS <= last_ms
    assert first_end < last_end


async def test_what_a_log_held_before_falls_due_at_its_times_while_clients_write(start: Any) -> None:
    """Its tombstone goes when its horizon passes: after a day, and not after the month."""
    broker = await start(segment_ms=1_000, delete_retention_ms=DAY_MS, min_cleanable_dirty_ratio=0.01)
    put(broker, ("gone", None))
    found = passes(broker)
    began_ms = broker.clock.now_ms()
    async with writing(broker):
        await broker.clock.advance("30d")
    days = [round((time_ms - began_ms) / DAY_MS) for time_ms, _ in found]
    assert days == [0, 1, 30]
    assert "gone" not in keys(broker)


async def test_a_log_is_cleaned_in_the_usual_time_after_a_move_of_the_clock_that_was_cancelled(start: Any) -> None:
    broker = await start(segment_ms=1_000, min_cleanable_dirty_ratio=0.01)
    put(broker, ("a", "1"), ("a", "2"))
    found = passes(broker)
    async with writing(broker):
        broker.clock.call_later(DAY_MS, lambda: move.cancel())
        move = asyncio.ensure_future(broker.clock.advance("30d"))
        await asyncio.wait([move])
    assert len(found) == 1
    await broker.clock.advance(15_000)
    assert len(found) == 2


async def test_a_log_is_compacted_on_request_while_the_clock_is_moved(start: Any) -> None:
    broker = await start(segment_ms=1_000)
    reports: list[PassReport] = []

    async def compact() -> None:
        reports.extend(await broker.cleaner.compact(P))

    async with writing(broker):
        broker.clock.call_later(DAY_MS, compact)
        await broker.clock.advance("30d")
    (report,) = reports
    assert report.records_kept == 3 < report.records_read
