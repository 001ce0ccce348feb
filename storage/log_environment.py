"""What the logs of a log directory share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .background_work import BackgroundWork, Deletions
from .filesystem import FileSystem
from .producers.producer_state_manager import DEFAULT_EXPIRATION_MS


class LogEnvironment(NamedTuple):
    """What the logs of a log directory share."""

    filesystem: FileSystem
    background: list[BackgroundWork]
    """Logs put work here that must not run on the loop; the owner of the logs takes it from here."""
    deletions: Deletions
    now_ms: Callable[[], int]
    """The broker's clock, for calls that do not get the time."""
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS
