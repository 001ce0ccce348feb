"""Locations of checkpoints and output files: a path on this machine, or a URI that Spark can write to."""

from __future__ import annotations

import re
from pathlib import Path

HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:")
"""Matches the beginning of a URI."""


def local_path(location: str) -> Path | None:
    """The path of a location on this machine; None for a location elsewhere."""
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return None if HAS_SCHEME.match(location) else Path(location)
