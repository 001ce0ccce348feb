"""The output of `kmini group` as rows."""

from __future__ import annotations


def rows_of(output: str) -> list[list[str]]:
    return [line.split("\t") for line in output.splitlines()]
