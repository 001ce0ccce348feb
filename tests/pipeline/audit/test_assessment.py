"""Violations planted into a directory of a broker are found, and a clean directory is clean.

These tests also hold pipeline/audit/segment_headers.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kmini import Broker
from kmini.pipeline.audit.audit_plan import GRACE_MS
from kmini.pipeline.audit.report import KeyStatus, Kind

from .directories import (
    DAY_MS,
    HOUR_MS,
    PROFILES,
    WITHOUT_CLEANER,
    audited,
    copy_back,
    folder,
    of_kind,
    only,
    policy,
    segments,
    violated,
)

pytestmark = pytest.mark.sockets


def test_what_the_cleaner_does_in_time_is_clean() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", config=PROFILES)
        for hour in range(60):
            broker.produce("profiles", f"value {hour}".encode(), key=b"key-%d" % (hour % 5))
            if hour % 7 == 0:
                broker.produce("profiles", None, key=b"gone-%d" % hour)
            broker.clock.advance("1h")
            broker.clock.advance("2m")  # what the disk says of renamed files is not in the time that is moved
            report = audited(broker)
            assert report.is_clean, report.violations
        log = only(report, "profiles")
    assert log.records > 5
    assert log.dead_records > 0
    assert log.tombstones > 0


def test_a_value_past_the_bound_is_found() -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES)
        written_ms = broker.clock.now_ms()
        broker.produce("profiles", b"phone: 5555555", key=b"john")
        broker.produce("profiles", b"phone: 6666666", key=b"jane")
        broker.clock.advance("6h")
        broker.produce("profiles", b"no phone", key=b"john")
        broker.clock.advance("24h")
        within = audited(broker)
        broker.clock.advance("3m")
        beyond = audited(broker)
        file = segments(folder(broker))[0]
    assert Kind.SUPERSEDED not in violated(within)
    (finding,) = of_kind(beyond, Kind.SUPERSEDED)
    assert finding.is_violation
    assert (finding.topic, finding.partition, finding.offset, finding.records) == ("profiles", 0, 0, 1)
    assert finding.written_ms == pytest.approx(written_ms, abs=10_000)
    assert finding.since_ms == pytest.approx(written_ms + 6 * HOUR_MS, abs=10_000)
    assert finding.overdue_ms == pytest.approx(3 * 60_000, abs=10_000)
    assert finding.path == str(file)
    assert "is past the bound of 1d by 3m" in finding.detail


def test_a_deleted_value_past_the_bound_is_told_from_a_superseded_one() -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.produce("profiles", None, key=b"john")
        broker.produce("profiles", b"2", key=b"john")
        broker.produce("profiles", b"3", key=b"john")
        broker.clock.advance("25h")
        report = audited(broker)
    assert [finding.offset for finding in of_kind(report, Kind.DELETED)] == [0]
    assert [finding.offset for finding in of_kind(report, Kind.SUPERSEDED)] == [2]  # the tombstone is no value
    assert only(report, "profiles").dead_records == 3


def test_records_that_wait_too_long_are_found_though_none_of_them_is_dead() -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.clock.advance("2h")
        broker.produce("profiles", b"1", key=b"jane")
        broker.clock.advance("23h")
        report = audited(broker)
    assert violated(report) == {Kind.UNCOMPACTED}
    (finding,) = of_kind(report, Kind.UNCOMPACTED)
    assert finding.overdue_ms == pytest.approx(HOUR_MS, abs=10_000)
    assert finding.records == 2


def test_without_a_bound_the_oldest_dead_value_is_told_and_nothing_is_violated() -> None:
    configs = {"cleanup.policy": "compact"}
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=configs)
        broker.produce("profiles", b"1", key=b"john")
        broker.produce("profiles", b"2", key=b"john")
        broker.clock.advance("100d")
        report = audited(broker, default=policy(configs))
    assert report.is_clean
    log = only(report, "profiles")
    assert log.oldest_dead_offset == 0
    assert log.oldest_dead_since_ms == pytest.approx(report.now_ms - 100 * DAY_MS, abs=10_000)


def test_a_tombstone_past_its_horizon_is_found() -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.produce("profiles", None, key=b"john")
        broker.topic("profiles").compact()
        horizon_ms = broker.clock.now_ms() + DAY_MS
        broker.clock.advance("24h")
        waiting = audited(broker)
        broker.clock.advance("1h")
        late = audited(broker)
    assert Kind.TOMBSTONE not in violated(waiting)
    assert only(waiting, "profiles").earliest_horizon_ms == pytest.approx(horizon_ms, abs=10_000)
    (finding,) = of_kind(late, Kind.TOMBSTONE)
    assert (finding.is_violation, finding.offset, finding.records) == (True, 1, 1)
    assert finding.since_ms == pytest.approx(horizon_ms, abs=10_000)
    assert finding.overdue_ms == pytest.approx(HOUR_MS, abs=10_000)


def test_the_cleaner_takes_the_tombstone_and_the_audit_is_content() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.produce("profiles", None, key=b"john")
        broker.clock.advance("3d")
        report = audited(broker, keys=[b"john"])
    assert report.is_clean
    assert [(key.status, key.is_proven) for key in report.keys] == [(KeyStatus.GONE, True)]


def test_a_key_that_is_left_in_one_segment_is_found() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.create_topic("copies")
        broker.produce("profiles", b"phone: 5555555", key=b"john")
        kept = Path(broker.data_dir or "") / segments(folder(broker))[0].name
        broker.clock.advance("1h")
        broker.produce("profiles", None, key=b"john")
        broker.topic("profiles").roll()
        shutil.copyfile(segments(folder(broker))[0], kept)
        broker.produce("profiles", b"other", key=b"jane")
        broker.clock.advance("3d")
        gone = audited(broker, keys=[b"john", b"jane"])
        planted = copy_back(kept, folder(broker))
        left = audited(broker, keys=[b"john"])
    assert [key.status for key in gone.keys] == [KeyStatus.GONE, KeyStatus.LEFT]
    (key,) = left.keys
    assert (key.status, key.values, key.tombstones, key.files) == (KeyStatus.LEFT, 1, 1, [str(planted)])
    violation, note = of_kind(left, Kind.ERASED_KEY)
    assert (violation.is_violation, violation.offset, violation.position) == (True, 0, 0)
    assert violation.path == str(planted)
    assert (note.is_violation, note.offset) == (False, 1)


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_a_file_that_should_be_gone_is_found_with_what_it_holds(suffix: str) -> None:
    with Broker() as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.produce("profiles", b"1", key=b"jane")
        broker.topic("profiles").roll()
        kept = Path(
            shutil.copyfile(segments(folder(broker))[0], f"{broker.data_dir}/{segments(folder(broker))[0].name}")
        )
        broker.produce("profiles", b"2", key=b"jane")
        broker.produce("profiles", None, key=b"john")
        broker.topic("profiles").compact()
        broker.clock.advance("5d")  # jane=2 is left, of john nothing
        assert audited(broker).is_clean
        planted = copy_back(kept, folder(broker), suffix)
        report = audited(broker)
    assert violated(report) == {Kind.LEFT_OVER, Kind.SUPERSEDED}
    (left,) = of_kind(report, Kind.LEFT_OVER)
    assert left.path == str(planted)
    assert "holds 1 value that the log has no longer" in left.detail  # john's
    (superseded,) = of_kind(report, Kind.SUPERSEDED)
    assert (superseded.path, superseded.offset) == (str(planted), 1)


def test_a_deleted_file_has_its_time_to_go() -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.produce("profiles", b"2", key=b"john")
        broker.topic("profiles").compact()
        assert list(folder(broker).glob("*.deleted"))
        report = audited(broker)
        assert report.is_clean
        (left, *_) = of_kind(report, Kind.LEFT_OVER)
        assert not left.is_violation


def test_it_has_its_delay_and_the_grace_since_it_was_renamed(tmp_path: Path) -> None:
    with Broker(config=WITHOUT_CLEANER, data_dir=tmp_path) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
    planted = copy_back(segments(folder(broker))[0], folder(broker))
    renamed_ms = planted.stat().st_ctime_ns // 1_000_000
    configs = PROFILES | {"file.delete.delay.ms": 5000}
    in_time, late = (
        of_kind(
            audited(tmp_path, now_ms=renamed_ms + 5000 + GRACE_MS + beyond, default=policy(configs)), Kind.LEFT_OVER
        )
        for beyond in (0, 1)
    )
    assert [finding.is_violation for finding in (*in_time, *late)] == [False, True]
    assert late[0].overdue_ms == GRACE_MS + 1


def test_the_folder_of_a_deleted_topic_is_searched_and_must_go() -> None:
    with Broker(config={"log.segment.delete.delay.ms": 30 * DAY_MS}) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.delete_topic("profiles")
        (doomed,) = (Path(broker.data_dir or "") / "broker-1").glob("profiles-0.*-delete")
        fresh = audited(broker, keys=[b"john"])
        broker.clock.advance("1h")
        late = audited(broker, keys=[b"john"])
    assert violated(fresh) == {Kind.ERASED_KEY}
    assert violated(late) == {Kind.ERASED_KEY, Kind.LEFT_OVER}
    assert {finding.path for finding in late.violations} == {str(doomed / "00000000000000000000.log")}
    assert only(late, "profiles").mark == "delete"


def test_flagged_tombstones_delete_and_their_own_value_is_told() -> None:
    configs = PROFILES | {"kmini.tombstone.flag.enable": "true"}
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=configs)
        broker.produce("profiles", b"1", key=b"john")
        broker.produce("profiles", b"last words", key=b"john", headers=[("kmini.tombstone", b"")])
        broker.clock.advance("25h")
        flagged = audited(broker, default=policy(configs), keys=[b"john"])
        plain = audited(broker, default=policy())
        broker.topic("profiles").compact()
        broker.clock.advance("25h")
        late = audited(broker, default=policy(configs), keys=[b"john"])
    assert [finding.offset for finding in of_kind(flagged, Kind.DELETED)] == [0]
    assert only(flagged, "profiles").flagged_values == 1
    (_, tombstone) = of_kind(flagged, Kind.ERASED_KEY)
    assert "with a value of 10 bytes" in tombstone.detail
    assert not of_kind(plain, Kind.DELETED)
    assert [finding.offset for finding in of_kind(plain, Kind.SUPERSEDED)] == [0]
    assert late.keys[0].status is KeyStatus.TOMBSTONE
    assert [finding.offset for finding in of_kind(late, Kind.TOMBSTONE)] == [1]


def test_records_below_the_log_start_are_counted() -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES | {"cleanup.policy": "compact,delete"})
        for number in range(4):
            broker.produce("profiles", b"1", key=b"key-%d" % number)
        broker.delete_records("profiles", 3)
        report = audited(broker)
    assert report.is_clean
    assert only(report, "profiles").below_start_records == 3
    assert [finding.is_violation for finding in of_kind(report, Kind.BELOW_START)] == [False]


def test_topics_that_are_not_compacted_are_read_for_keys_only() -> None:
    with Broker() as broker:
        broker.create_topic("events")
        broker.produce("events", b"1", key=b"john")
        unread = audited(broker, default=policy({}))
        searched = audited(broker, default=policy({}), keys=[b"john"])
    assert (unread.records, only(unread, "events").is_read) == (0, False)
    assert (searched.records, searched.keys[0].status) == (1, KeyStatus.LEFT)
