"""A file of an init directory, and why it cannot be run."""

from __future__ import annotations

import os
from typing import NamedTuple

from kmini.cli.visible import visible

TOPICS, RECORDS, RULES, SCRIPT = ".topics", ".jsonl", ".json", ".sh"
ENDINGS = (TOPICS, RECORDS, RULES, SCRIPT)
LEFT_OUT = ".md"
"""Ending of files that explain the others."""


class InitError(Exception):
    """A file of an init directory cannot be run. The message begins with its name, and says where and what was
    expected."""


class InitFile(NamedTuple):
    """A file of an init directory."""

    name: str
    path: str

    @property
    def ending(self) -> str:
        return os.path.splitext(self.name)[1]

    @property
    def shown(self) -> str:
        """The name, without control characters."""
        return visible(self.name)

    def error(self, text: str, line: int | None = None) -> InitError:
        """The error that says `text` of this file, or of one of its lines. A text may begin with the path or the name.
        The error has the name alone, because `/health` is open."""
        text = text.replace(self.path, self.name)
        if text.startswith((f"{self.name}, line ", f"{self.shown}, line ")):
            return InitError(visible(text))
        where = self.shown if line is None else f"{self.shown}, line {line}"
        return InitError(f"{where}: {visible(text)}")

    def check(self) -> None:
        """Raise InitError for what cannot be run whatever it holds. A link to a file is a file: the volumes of
        Kubernetes consist of links."""
        if self.ending not in ENDINGS:
            raise self.error(f"must end in {', '.join(ENDINGS)}; hidden files and {LEFT_OUT} files are left out")
        if os.path.islink(self.path) and not os.path.exists(self.path):
            raise self.error("a link, and what it points to does not exist")
        if os.path.isdir(self.path):
            raise self.error(
                "a directory, and a file was expected; Docker makes a directory where the file that it mounts does not "
                "exist on the host"
            )
        if not os.path.isfile(self.path):
            raise self.error("a regular file was expected")

    @property
    def is_empty(self) -> bool:
        """Whether it has no content. Raises InitError."""
        try:
            return os.path.getsize(self.path) == 0
        except OSError as error:
            raise self._unreadable(error) from error

    def digest(self) -> str:
        """The SHA-256 of the content. Blocks. Raises InitError."""
        import hashlib

        try:
            with open(self.path, "rb") as file:
                found = hashlib.sha256()
                while part := file.read(1 << 20):
                    found.update(part)
        except OSError as error:
            raise self._unreadable(error) from error
        return found.hexdigest()

    def read(self) -> str:
        """The content as UTF-8, with or without a byte order mark. Blocks. Raises InitError."""
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error("UTF-8 was expected", content.count(b"\n", 0, error.start) + 1) from error

    def _unreadable(self, error: OSError) -> InitError:
        by = f" (kmini runs as user {os.geteuid()})" if hasattr(os, "geteuid") else ""
        return self.error(f"cannot be read: {error.strerror}{by}")
