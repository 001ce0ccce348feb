"""Brokers with consumer groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.broker.mixed_group_lab import MakeMixedLab, MixedLab


@pytest.fixture
async def make_mixed_lab(tmp_path: Path) -> AsyncIterator[MakeMixedLab]:
    """A maker of brokers with the topic "t" of four partitions; settings are written with underscores for dots."""
    made: list[MixedLab] = []

    async def make(**settings: object) -> MixedLab:
        lab = MixedLab(tmp_path, **settings)
        await lab.start()
        made.append(lab)
        lab.add_topics("t")
        return lab

    yield make
    for lab in made:
        await lab.stop()


@pytest.fixture
async def mixed_lab(make_mixed_lab: MakeMixedLab) -> MixedLab:
    return await make_mixed_lab()
