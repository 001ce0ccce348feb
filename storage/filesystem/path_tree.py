"""Values by path, which finds the paths below a directory without a look at all others.

A log directory has tens of thousands of files open, and removes or renames thousands of them one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from sys import intern
from typing import Generic, TypeVar

from .interface import Names

T = TypeVar("T")


def _split(path: str) -> tuple[str, str]:
    """Split a path without doubled separators as `os.path.split` does, which takes three times as long."""
    directory, separator, name = path.rpartition(os.sep)
    return directory or separator, name


class PathTree(Generic[T]):
    """A mapping from paths to values. Its owner guards it against other threads."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, T]] = {}
        """Values by directory and name; no directory is empty."""
        self._subdirectories: dict[str, set[str]] = {}
        """The directories with paths in or below them, by the directory above."""

    def get(self, path: str) -> T | None:
        directory, name = _split(path)
        values = self._values.get(directory)
        return None if values is None else values.get(name)

    def put(self, path: str, value: T) -> None:
        directory, name = _split(path)
        values = self._values.get(directory)
        if values is None:
            values = self._values[directory] = {}
            self._register(directory)
        values[intern(name)] = value  # partitions have files of the same names

    def pop(self, path: str) -> T | None:
        """Remove the path; return its value, or None if there is none."""
        directory, name = _split(path)
        values = self._values.get(directory)
        if values is None or name not in values:
            return None
        value = values.pop(name)
        if not values:
            del self._values[directory]
            self._unregister(directory)
        return value

    def values(self) -> list[T]:
        """Return all values."""
        return [value for values in self._values.values() for value in values.values()]

    def at_or_below(self, path: str) -> Names:
        """Return the path alone if it has a value, else all paths below it."""
        return [path] if self.get(path) is not None else list(self._below(path))

    def _below(self, directory: str) -> Iterator[str]:
        for name in self._values.get(directory, ()):
            yield os.path.join(directory, name)
        for subdirectory in self._subdirectories.get(directory, ()):
            yield from self._below(subdirectory)

    def _register(self, directory: str) -> None:
        while (above := _split(directory)[0]) != directory:
            siblings = self._subdirectories.setdefault(above, set())
            is_known = bool(siblings)
            siblings.add(directory)
            if is_known:
                return
            directory = above

    def _unregister(self, directory: str) -> None:
        while directory not in self._values and directory not in self._subdirectories:
            above = _split(directory)[0]
            if above == directory:
                return
            siblings = self._subdirectories[above]
            siblings.discard(directory)
            if siblings:
                return
            del self._subdirectories[above]
            directory = above
