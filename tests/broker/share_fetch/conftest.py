"""A broker with the topic "t", the state of the share partition of the group "g" initialized at offset 0."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from support.broker.share_readers import ShareReaders


@pytest.fixture
async def lab(make_share_readers: Callable[..., Awaitable[ShareReaders]]) -> ShareReaders:
    lab = await make_share_readers()
    assert await lab.initialize() == "NONE"
    return lab
