"""The operating system's file system: locks, large trees, and syncs that are left out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kmini.storage.filesystem import LockHeld, OsFileSystem

pytestmark = pytest.mark.sockets


def test_others_go_on_while_a_large_tree_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem = OsFileSystem(max_open_files=1)
    (tmp_path / "t").mkdir()
    inside = filesystem.open(str(tmp_path / "t" / "a"), create=True)
    other = filesystem.open(str(tmp_path / "b"), create=True)
    removing, go_on = threading.Event(), threading.Event()
    rmdir = os.rmdir

    def slow_rmdir(*args: object, **keywords: object) -> None:
        removing.set()
        assert go_on.wait(30)
        rmdir(*args, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rmdir", slow_rmdir)
    remover = threading.Thread(target=filesystem.remove_tree, args=(str(tmp_path / "t"),))
    remover.start()
    try:
        assert removing.wait(30)
        other.append(b"x")
        filesystem.open(str(tmp_path / "c"), create=True).append(b"y")
        with pytest.raises(FileNotFoundError):
            inside.append(b"z")
    finally:
        go_on.set()
        remover.join()
    assert filesystem.list(str(tmp_path)) == ["b", "c"]


@pytest.mark.sockets
def test_the_lock_excludes_other_processes(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    attempt = (
        "import sys; from kmini.storage.filesystem import LockHeld, OsFileSystem\n"
        "try: OsFileSystem().lock(sys.argv[1])\n"
        "except LockHeld: print('held')\n"
        "else: print('free')"
    )

    def ask_another_process() -> str:
        run = subprocess.run([sys.executable, "-c", attempt, path], capture_output=True, text=True, check=True)
        return run.stdout.strip()

    lock = OsFileSystem().lock(path)
    assert ask_another_process() == "held"
    with pytest.raises(LockHeld):
        OsFileSystem().lock(path)
    lock.release()
    assert ask_another_process() == "free"


def test_a_file_system_that_is_not_synced_writes_all_and_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for filesystem, calls in ((OsFileSystem(), 2), (OsFileSystem(synced=False), 0)):
        synced.clear()
        file = filesystem.open(str(tmp_path / "a"), create=True)
        file.append(b"x")
        file.sync()
        filesystem.sync_directory(str(tmp_path))
        file.close()
        assert len(synced) == calls
    assert (tmp_path / "a").read_bytes() == b"xx"
