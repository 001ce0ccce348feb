"""Brokers with streams groups, by short names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from support.broker.streams_lab import StreamsLab

MakeLab = Callable[..., Awaitable[StreamsLab]]


@pytest.fixture
def make_lab(make_streams_lab: MakeLab) -> MakeLab:
    return make_streams_lab


@pytest.fixture
async def lab(make_streams_lab: MakeLab) -> StreamsLab:
    return await make_streams_lab()


@pytest.fixture
def quick_lab(quick_streams_lab: StreamsLab) -> StreamsLab:
    """A broker that assigns at once."""
    return quick_streams_lab
