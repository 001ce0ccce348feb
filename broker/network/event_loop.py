"""The event loop of a broker, and the limit of open files of its process."""

import asyncio
import logging

log = logging.getLogger("kmini.event_loop")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where that is installed, which halves the latency; else one of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit: every connection and every active segment opens one."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:
            log.info("the limit of %d open files stays: %s", soft, error)


_OTHER_DESCRIPTORS = 96
"""Descriptors reserved for the database, the loop, the listeners, and connections that are accepted to be refused."""


def descriptors_for_connections() -> int:
    """The number of connections for which the limit of open files leaves room beside the logs."""
    try:
        import resource
    except ImportError:
        return 16_384
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, soft - descriptors_for_files() - _OTHER_DESCRIPTORS) if soft > 0 else 1 << 31


def descriptors_for_files() -> int:
    """The number of files that the logs may hold open: two fifths of the process's limit; the rest is for connections.

    A file that has to wait for a descriptor takes one from a file that is idle; a connection would be refused.
    """
    try:
        import resource
    except ImportError:
        return 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(soft * 2 // 5, 16_384)) if soft > 0 else 16_384
