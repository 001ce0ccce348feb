"""What handlers reach of a broker: its parts, and the features of its cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.api.releases import NEWEST, Feature
from kmini.broker.broker import BrokerServer

StartBroker = Callable[..., Awaitable[BrokerServer]]


async def test_the_parts_are_those_of_one_broker(start_broker: StartBroker) -> None:
    broker = await start_broker()
    services = broker.services
    assert services.this_broker is broker
    assert services.replica_manager.logs is services.logs
    assert services.replica_manager.purgatory is services.purgatory
    assert (services.node_id, services.config.current.node_id) == (1, 1)


async def test_features_have_the_levels_of_the_newest_release_until_they_are_changed(
    start_broker: StartBroker,
) -> None:
    broker = await start_broker()
    assert broker.services.features == [*NEWEST.features]
    broker.controller.set_feature_levels({"transaction.version": 0})
    assert broker.services.features[1] == Feature("transaction.version", 0, 2, 0)


@pytest.mark.parametrize(("stored", "level"), [(-3, 0), (0, 0), (1, 1), (2, 2), (7, 2)])
async def test_a_stored_level_counts_within_what_the_release_has(
    start_broker: StartBroker, stored: int, level: int
) -> None:
    """A data directory may have been served as another release before."""
    broker = await start_broker()
    broker.controller.set_feature_levels({"transaction.version": stored})
    assert broker.services.features[1].level == level


async def test_an_older_release_has_the_features_that_it_had(start_broker: StartBroker) -> None:
    broker = await start_broker(kmini_as_version="3.9")
    assert [feature.name for feature in broker.services.features] == ["metadata.version"]
    assert broker.services.feature_level("group.version") == 0
    assert not broker.services.offers_consumer_groups


@pytest.mark.parametrize(("protocols", "is_offered"), [("classic", False), ("classic,consumer", True)])
async def test_consumer_groups_are_offered_where_a_setting_names_them(
    start_broker: StartBroker, protocols: str, is_offered: bool
) -> None:
    broker = await start_broker(group_coordinator_rebalance_protocols=protocols)
    assert broker.services.offers_consumer_groups == is_offered
