"""Markdown of the generated pages: the note at their top, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

NOTE = "<!-- Written by `make docs`; do not edit. -->\n"
"""The first line of every generated page."""


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell(text) for text in line) + " |\n" for line in lines)


def cell(text: str) -> str:
    return one_line(text).replace("|", "\\|").replace("<", "&lt;")


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
