"""The event loop a broker runs on, and the limits of the process it needs raised."""

import asyncio
import logging

log = logging.getLogger("kmini.event_loop")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it exists: half the latency of the standard loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def raise_descriptor_limit() -> None:
    """Lift the soft limit on open files to the hard one: every connection and every active segment needs one."""
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
"""For the database, the loop, the listeners, and those whom we have accepted only to refuse them."""


def descriptors_for_connections() -> int:
    """How many connections there may be: more would take descriptors that files need, and hurt others."""
    try:
        import resource
    except ImportError:
        return 16_384
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, soft - descriptors_for_files() - _OTHER_DESCRIPTORS) if soft > 0 else 1 << 31


def descriptors_for_files() -> int:
    """How many files the logs may hold open: half of what the process may, the rest is for connections."""
    try:
        import resource
    except ImportError:
        return 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(soft // 2, 16_384)) if soft > 0 else 16_384
