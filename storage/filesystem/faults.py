"""Faults of a MemoryFileSystem: the n-th operation fails, is torn, or is the last before a power loss."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from typing import NoReturn

CHANGES = frozenset(
    {
        "append",
        "create",
        "link",
        "make_directory",
        "remove",
        "remove_tree",
        "rename",
        "set_modified_ms",
        "sync",
        "sync_directory",
        "truncate",
        "write_at",
    }
)
"""Operations that change something or make a change durable."""
READS = frozenset({"drop_behind", "list", "modified_ms", "open", "read", "read_at", "size"})
"""Operations that read. (`exists`, `is_directory` and `lock` cannot fail, so they do not count as operations.)"""


class PowerLoss(BaseException):
    """The machine is off: no operation works any more. Not an Exception, so that no handler takes it for a failed
    call."""


class Faults:
    """A fault, and the number of the operation, from 1, at which it happens. Without arguments operations are counted.

    A test loops over n = 1, 2, … until a run ends with `is_spent` False: the run had fewer than n operations.
    """

    def __init__(
        self,
        *,
        fail_at: int = 0,
        error: int = errno.EIO,
        fail_for_good: bool = False,
        tear_at: int = 0,
        power_loss_at: int = 0,
        operations: Collection[str] = CHANGES | READS,
    ) -> None:
        self.fail_at = fail_at
        """The operation that raises OSError(`error`) and changes nothing."""
        self.error = error
        self.fail_for_good = fail_for_good
        """Whether all later operations fail as well, as on a full disk or a lost mount."""
        self.tear_at = tear_at
        """The operation in which power is lost: an append or write_at leaves a part of its bytes, any other nothing."""
        self.power_loss_at = power_loss_at
        """The last operation before power is lost: it happens, and PowerLoss is raised instead of its return."""
        self.operations = operations
        """The operations that count: CHANGES, READS, or any names out of them."""
        self.count = 0
        """Operations seen."""
        self.is_spent = False
        """Whether the fault has happened."""
        self.last: str = ""
        """The operation at which it happened, and its path, for the message of a failing test."""
        self._is_off = False

    def __repr__(self) -> str:
        plan = {name: getattr(self, name) for name in ("fail_at", "tear_at", "power_loss_at") if getattr(self, name)}
        return f"Faults({plan}, count={self.count}, last={self.last!r})"

    def before(self, operation: str, path: str) -> bool:
        """Count an operation; raise if it is to fail. Return whether it is to be torn: then the caller calls
        `lose_power`."""
        if self._is_off or 0 < self.power_loss_at <= self.count:
            self.lose_power()
        if operation not in self.operations:
            return False
        self.count += 1
        if self.count == self.fail_at or (self.fail_for_good and 0 < self.fail_at < self.count):
            self._note(operation, path)
            raise OSError(self.error, os.strerror(self.error), path)
        if self.count in (self.tear_at, self.power_loss_at):
            self._note(operation, path)
            return self.count == self.tear_at
        return False

    def after(self) -> None:
        """Note that the operation counted last has happened."""
        if 0 < self.power_loss_at <= self.count:
            self.lose_power()

    def lose_power(self) -> NoReturn:
        self._is_off = True
        raise PowerLoss

    def _note(self, operation: str, path: str) -> None:
        if not self.is_spent:
            self.last = f"{operation} {path}"
        self.is_spent = True
