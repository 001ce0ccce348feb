"""`broker.topic("orders")`: what a topic holds, waits for its records, and what the broker would do to it later."""

from __future__ import annotations

import pytest

from kmini import Broker


def test_a_handle_of_a_topic_checks_its_name() -> None:
    for topic in (Broker().topic, Broker().aio.topic):
        with pytest.raises(TypeError, match="name=1: must be the name of a topic as str"):
            topic(1)  # type: ignore[arg-type]
