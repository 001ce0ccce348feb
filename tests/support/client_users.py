"""Which tests use client libraries, and what these leave open."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from pathlib import Path

LIBRARIES = ("aiokafka", "confluent_kafka", "kafka")
_NAMES = "|".join(LIBRARIES)
_IMPORT = re.compile(rf'^\s*(?:from|import) (?:{_NAMES})\b|importorskip\("(?:{_NAMES})\b', re.M)
_HELPERS = re.compile(r"^from support(?:\.([\w.]+))? import ([\w, ]+)", re.M)


@functools.cache
def uses_clients(file: Path) -> bool:
    """Whether a file imports a client library, by itself or by a helper of tests."""
    text = file.read_text(encoding="utf-8")
    if _IMPORT.search(text):
        return True
    helpers = {name for module, names in _HELPERS.findall(text) for name in ([module] if module else names.split(", "))}
    files = [Path(__file__).parent / f"{name.replace('.', '/')}.py" for name in helpers]
    return any(uses_clients(helper) for helper in files if helper.is_file())


def open_sockets() -> frozenset[str]:
    """The sockets of this process, where a client library is loaded that may leave some to the garbage collector."""
    if sys.modules.keys().isdisjoint(LIBRARIES) or sys.platform != "linux":
        return frozenset()
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of the listing itself
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return frozenset(target for target in found if target.startswith("socket:"))
