"""Files that cannot be read in part do not end an audit; what they may hide is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kmini import Broker
from kmini.pipeline.audit import local_audit
from kmini.pipeline.audit.audit_plan import Scope, SegmentTask, context_of, plan_audit
from kmini.pipeline.audit.report import KeyStatus, Kind
from kmini.pipeline.audit.segment_facts import WENT_AWAY, map_segment
from kmini.pipeline.audit.tally import Tally
from kmini.pipeline.logs.log_dir import LogDir

from .directories import PROFILES, audited, folder, of_kind, only, policy, segments, violated

pytestmark = pytest.mark.sockets


def written(path: Path) -> Path:
    """A log with a batch of john's in the middle of its first segment, and an active one; both closed."""
    with Broker(data_dir=path) as broker:
        broker.create_topic("profiles", config=PROFILES)
        for key in (b"jane", b"john", b"jack"):
            broker.produce("profiles", b"value of " + key, key=key)
        broker.topic("profiles").roll()
        broker.produce("profiles", b"2", key=b"jane")
    return folder(broker)


def damage(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)


NOW_MS = 0
"""Nothing is late at that time."""


def test_a_damaged_batch_is_named_and_the_others_are_audited(tmp_path: Path) -> None:
    log = written(tmp_path)
    first = segments(log)[0]
    begin = first.read_bytes().index(b"john") - 66  # 61 bytes of header, and the record's own
    damage(first, first.read_bytes().index(b"value of john"))
    report = audited(tmp_path, now_ms=NOW_MS)
    assert violated(report) == {Kind.DAMAGED}
    (finding,) = of_kind(report, Kind.DAMAGED)
    assert finding.path == str(first)
    assert finding.position is not None
    assert abs(finding.position - begin) < 8
    assert "CRC" in finding.detail
    assert only(report, "profiles").records == 3
    assert only(report, "profiles").dead_records == 1  # jane's first


def test_a_key_in_a_damaged_part_is_found_by_its_bytes_and_nothing_is_proven(tmp_path: Path) -> None:
    log = written(tmp_path)
    damage(segments(log)[0], segments(log)[0].read_bytes().index(b"value of john"))
    report = audited(tmp_path, now_ms=NOW_MS, keys=[b"john", b"nobody"])
    assert [(key.status, key.is_proven) for key in report.keys] == [(KeyStatus.GONE, False), (KeyStatus.GONE, False)]
    assert report.keys[0].files == [str(segments(log)[0])]
    assert violated(report) == {Kind.DAMAGED, Kind.ERASED_KEY, Kind.UNPROVEN}
    (finding,) = of_kind(report, Kind.ERASED_KEY)
    assert finding.key == "john"
    assert "cannot be read" in finding.detail


def test_what_a_broker_may_be_writing_is_no_violation_but_proves_nothing(tmp_path: Path) -> None:
    log = written(tmp_path)
    with segments(log)[-1].open("r+b") as file:
        file.truncate(segments(log)[-1].stat().st_size - 5)
    report = audited(tmp_path, now_ms=NOW_MS)
    assert report.is_clean
    (note,) = of_kind(report, Kind.DAMAGED)
    assert not note.is_violation
    searched = audited(tmp_path, now_ms=NOW_MS, keys=[b"john"])
    assert Kind.UNPROVEN in violated(searched)


def test_a_torn_end_of_a_sealed_segment_is_damage(tmp_path: Path) -> None:
    log = written(tmp_path)
    with segments(log)[0].open("r+b") as file:
        file.truncate(segments(log)[0].stat().st_size - 5)
    assert violated(audited(tmp_path, now_ms=NOW_MS)) == {Kind.DAMAGED}


def test_a_file_of_zeros_is_damage_and_nothing_else(tmp_path: Path) -> None:
    log = written(tmp_path)
    segments(log)[0].write_bytes(bytes(10_000))
    report = audited(tmp_path, now_ms=NOW_MS)
    assert violated(report) == {Kind.DAMAGED}
    assert only(report, "profiles").records == 1


def test_a_checkpoint_that_cannot_be_read_is_a_note_and_everything_counts_as_dirty(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "broker-1" / "cleaner-offset-checkpoint").write_text("nonsense\n")
    report = audited(tmp_path, now_ms=NOW_MS)
    assert report.is_clean
    assert any("cleaner-offset-checkpoint" in note for note in report.notes)
    assert only(report, "profiles").first_dirty_offset == 0


def test_room_that_was_made_in_advance_is_no_damage(tmp_path: Path) -> None:
    log = written(tmp_path)
    with segments(log)[-1].open("ab") as file:
        file.write(bytes(1 << 20))
    report = audited(tmp_path, now_ms=NOW_MS, keys=[b"nobody"])
    assert report.is_clean
    assert [key.is_proven for key in report.keys] == [True]
    with segments(log)[-1].open("ab") as file:
        file.write(b"x")
    assert violated(audited(tmp_path, now_ms=NOW_MS)) == {Kind.DAMAGED}


def test_many_damaged_places_are_counted_and_some_are_named(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("profiles", config=PROFILES)
        for number in range(220):
            broker.produce("profiles", b"value %3d" % number, key=b"john")
    file = segments(folder(broker))[0]
    for number in range(0, 220, 2):
        damage(file, file.read_bytes().index(b"value %3d" % number))
    report = audited(tmp_path, now_ms=NOW_MS, keys=[b"nobody"])
    damaged = of_kind(report, Kind.DAMAGED)
    assert only(report, "profiles").damages == 110
    assert len(damaged) == 101
    assert [finding.detail for finding in damaged if finding.position is None] == ["10 more places are damaged"]


def test_a_file_that_goes_away_meanwhile_leaves_nothing_proven(tmp_path: Path) -> None:
    log = written(tmp_path)
    scope = Scope(NOW_MS, keys=(b"john",))
    (plan,) = plan_audit(LogDir(tmp_path), {}, policy())
    gone = plan.files[0]._replace(number=99, path=str(log / "00000000000000000002.log"))
    beside = gone._replace(number=100, state="deleted")
    tally = Tally()
    context = context_of(plan, {}, NOW_MS)
    for file in (gone, beside):
        assert list(map_segment(file, context, scope, tally)) == []
    assert tally.unread == [(99, WENT_AWAY)]


def test_a_log_whose_files_go_away_is_audited_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path)
    first = segments(log)[0]
    moved = tmp_path / first.name
    reads: list[str] = []

    def read(task: SegmentTask, *others: Any) -> Any:
        if not reads:
            first.rename(moved)  # a compaction during the audit
        elif len(reads) == 1:
            moved.rename(first)
        reads.append(task.path)
        return map_segment(task, *others)

    monkeypatch.setattr(local_audit, "map_segment", read)
    report = audited(tmp_path, now_ms=NOW_MS, keys=[b"nobody"])
    assert [Path(path).name[:20].lstrip("0") for path in reads] == ["", "3", "", "3"]
    assert report.is_clean
    assert report.keys[0].is_proven
    assert only(report, "profiles").records == 4


def test_a_log_that_is_deleted_meanwhile_is_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path)

    def read(*arguments: Any) -> Any:
        if log.exists():
            log.rename(tmp_path / "gone")
        return map_segment(*arguments)

    monkeypatch.setattr(local_audit, "map_segment", read)
    report = audited(tmp_path, now_ms=NOW_MS, keys=[b"john"])
    assert report.is_clean
    assert only(report, "profiles").segments == 0
