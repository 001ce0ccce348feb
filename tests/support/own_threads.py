"""The threads of kmini in this process, without those of client libraries, which end when they like."""

from __future__ import annotations

import threading

from support.until import until


def own_threads() -> set[threading.Thread]:
    """The threads of kmini that run now. Their names begin with `kmini`."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("kmini")}


def until_no_thread_is_new(before: set[threading.Thread]) -> None:
    """Wait until each thread of kmini that runs is one of those `before`."""
    until(lambda: own_threads() <= before, lambda: own_threads() - before)
