"""Settings that were made while the broker ran, when it starts again."""

from __future__ import annotations

import logging

import pytest

from kmini.broker.controller.controller import Controller
from kmini.broker.controller.stored_config import stored_config
from kmini.broker.settings.broker_config import BrokerConfig


@pytest.mark.parametrize(("text", "in_force"), [("100", 500), ("14000", 2_000), ("700", 700)])
def test_a_stored_change_takes_the_nearest_of_the_bounds_that_were_set_since(
    controller: Controller, caplog: pytest.LogCaptureFixture, text: str, in_force: int
) -> None:
    controller.set_broker_configs("", {"group.consumer.assignment.interval.ms": text})
    bounds = {"group.consumer.min.assignment.interval.ms": "500", "group.consumer.max.assignment.interval.ms": "2000"}
    given = BrokerConfig.parse(bounds)
    with caplog.at_level(logging.WARNING):
        config = stored_config(given, controller)
    assert config.group_consumer_assignment_interval_ms == in_force
    assert bool(caplog.messages) == (str(in_force) != text)
