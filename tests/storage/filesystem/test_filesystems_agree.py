"""The file system of the crash tests behaves like the operating system's, whatever is asked in whatever order."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.storage.filesystem import File, FileSystem, OsFileSystem
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem


class User:
    """Does what it is told to one file system, and reports the answers in terms that are the same for any."""

    def __init__(self, filesystem: FileSystem, root: str) -> None:
        self.filesystem = filesystem
        self.root = root
        self.files: list[File] = []
        filesystem.make_directory(root)

    def act(self, chance: random.Random) -> object:
        name, other = (f"{self.root}/{chance.choice(('a', 'b', 'd/a', 'd/b', 'e/a'))}" for _ in range(2))
        directory, target = (f"{self.root}/{chance.choice('de')}" for _ in range(2))
        create = chance.random() < 0.5
        data = bytes([chance.randrange(256)]) * chance.randrange(20)
        number = chance.randrange(30)
        file = chance.choice(self.files) if self.files else None
        actions: list[Callable[[], object]] = [
            lambda: self.open(name, create),
            lambda: self.filesystem.rename(name, other),
            lambda: self.filesystem.remove(name),
            lambda: self.filesystem.size(name),
            lambda: self.filesystem.make_directory(directory),
            lambda: self.filesystem.rename(directory, target) if directory != target else None,
            lambda: self.filesystem.remove_tree(directory) if number < 6 else None,
            lambda: self.filesystem.list(directory),
            self.filesystem.close_idle,
        ]
        if file is not None:
            actions += 2 * [
                lambda: file.append(data, data),
                lambda: file.read_at(number, 15),
                lambda: file.truncate(number),
                lambda: file.write_at(number, data),
                file.sync,
                file.close,
            ]
        try:
            return chance.choice(actions)()
        except (OSError, ValueError) as error:
            return type(error)

    def open(self, name: str, create: bool) -> int:
        file = self.filesystem.open(name, create=create)
        self.files.append(file)
        return file.size

    def picture(self) -> object:
        """Every file with its bytes, and what every handle can see."""
        return self._below(self.root), [self._seen(file) for file in self.files]

    def _seen(self, file: File) -> object:
        try:
            return file.path.removeprefix(self.root).lstrip("/"), file.size, file.read_at(0, 1000)
        except (OSError, ValueError) as error:
            return type(error)

    def _below(self, path: str) -> dict[str, object]:
        return {
            name: self._below(f"{path}/{name}")
            if self.filesystem.is_directory(f"{path}/{name}")
            else self.filesystem.read(f"{path}/{name}")
            for name in self.filesystem.list(path)
        }


@pytest.mark.parametrize("positioned_io", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_the_memory_file_system_answers_as_the_disk_does(tmp_path: Path, seed: int, positioned_io: bool) -> None:
    disk = User(OsFileSystem(max_open_files=2, positioned_io=positioned_io), str(tmp_path))
    memory = User(MemoryFileSystem(refuses_open_files=False), "root")
    for step in range(250):
        answers = [user.act(random.Random(f"{seed}.{step}")) for user in (disk, memory)]
        assert answers[0] == answers[1], step
        if step % 10 == 0:
            assert disk.picture() == memory.picture(), step
    assert disk.picture() == memory.picture()
