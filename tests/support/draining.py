"""Generators of steps, run to their end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def returned(steps: Generator[None, None, T]) -> T:
    """What a generator returns after its last step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
