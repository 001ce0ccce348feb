"""Brokers with an authorizer, and authenticated clients without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from support.broker.access_rules import STANDARD
from support.broker.asking import ask_as_user


@pytest.fixture
async def guarded_broker(start_broker: Callable[..., Awaitable[BrokerServer]]) -> BrokerServer:
    return await start_broker(
        authorizer_class_name=STANDARD,
        super_users="User:admin",
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    )


@pytest.fixture
def ask_as() -> Callable[..., Awaitable[Any]]:
    """Asks a broker as a user: see `ask_as_user`."""
    return ask_as_user
