"""Brokers with consumer groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.broker.consumer_lab import labs
from support.broker.mixed_group_lab import MakeMixedLab, MixedLab


@pytest.fixture
async def make_mixed_lab(tmp_path: Path) -> AsyncIterator[MakeMixedLab]:
    """A maker of brokers with the topic "t" of four partitions; settings are written with underscores for dots."""
    async with labs(MixedLab, tmp_path, "t") as make:
        yield make


@pytest.fixture
async def mixed_lab(make_mixed_lab: MakeMixedLab) -> MixedLab:
    return await make_mixed_lab()
