"""Files that are synced before the records they were made from are deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kmini.pipeline.stages import durable
from kmini.pipeline.stages.durable import DurableFolder, DurableOutput


def commit(checkpoint: Path, batch_id: int) -> None:
    (checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    paths: list[str] = []

    def sync(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("what is synced is seen in /proc")
    monkeypatch.setattr(durable.os, "fsync", sync)
    return paths


def test_a_new_file_is_synced_with_its_folder_once(checkpoint: Path, synced: list[str]) -> None:
    folder = DurableFolder(checkpoint)
    folder.sync()
    synced.clear()
    commit(checkpoint, 7)
    assert folder.sync() == 1
    assert folder.sync() == 0
    assert synced == [str(checkpoint / "commits" / "7"), str(checkpoint / "commits")]


def test_files_of_a_sink_are_synced_before_the_log_that_names_them(tmp_path: Path, synced: list[str]) -> None:
    output = DurableOutput(tmp_path)
    assert output.sync() == 0
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "day=1").mkdir()
    part, stray = tmp_path / "day=1" / "part 1.parquet", tmp_path / "stray.parquet"
    part.write_bytes(b"rows")
    stray.write_bytes(b"of a task that failed")
    path = f"file://{str(part).replace(' ', '%20')}"
    (tmp_path / "_spark_metadata" / "0").write_text(f'v1\n{{"path":"{path}","action":"add"}}')
    assert output.sync() == 1
    in_order = [str(part), str(part.parent), str(tmp_path / "_spark_metadata" / "0")]
    assert [path for path in synced if path in in_order] == in_order
    assert str(stray) not in synced
    (tmp_path / "_spark_metadata" / "0").rename(tmp_path / "_spark_metadata" / "0.compact")
    assert output.sync() == 0
