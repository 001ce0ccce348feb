"""The coordinator's laboratory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from support.broker.group_lab import Lab


@pytest.fixture
async def new_lab() -> AsyncIterator[Callable[..., Lab]]:
    """A maker of coordinators; settings are written with underscores for dots."""
    labs: list[Lab] = []

    def make(**settings: object) -> Lab:
        labs.append(Lab(**settings))
        return labs[-1]

    yield make
    for lab in labs:
        await lab.coordinator.stop()


@pytest.fixture
def lab(new_lab: Callable[..., Lab]) -> Lab:
    return new_lab()
