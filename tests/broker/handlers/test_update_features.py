"""UpdateFeatures: levels that can change, and those that cannot."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import NONE, InvalidUpdateVersion
from kmini.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
)

EXAMPLE = UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[])

Update = tuple[str, int, int]
SAME: Update = ("metadata.version", 30, UPGRADE)


def request(*updates: Update) -> UpdateFeaturesRequest:
    Feature = UpdateFeaturesRequest.FeatureUpdate
    return UpdateFeaturesRequest(
        feature_updates=[
            Feature(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        ]
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("updates", [[], [SAME], [SAME, SAME], [("metadata.version", 30, SAFE_DOWNGRADE)]])
async def test_what_is_in_force_may_be_asked_for(
    broker: BrokerServer, ask, version: int, updates: list[Update]
) -> None:
    answer = await ask(broker, request(*updates), version)
    assert answer.error_code == NONE
    told = [(result.feature, result.error_code) for result in answer.results]
    assert told == ([(name, NONE) for name, *_ in updates] if version == 1 else [])


@pytest.mark.parametrize(
    "wrong",
    [
        ("metadata.version", 29, UPGRADE),
        ("metadata.version", 29, SAFE_DOWNGRADE),
        ("metadata.version", 7, UNSAFE_DOWNGRADE),
        ("metadata.version", 31, UPGRADE),
        ("metadata.version", 6, SAFE_DOWNGRADE),
        ("metadata.version", -1, UPGRADE),
        ("metadata.version", 29, 0),
        ("metadata.version", 29, 4),
        ("transaction.version", 3, UPGRADE),
        ("transaction.version", 1, UPGRADE),
        ("transaction.version", -1, SAFE_DOWNGRADE),
        ("transaction.version", 0, UPGRADE),
        ("group.version", 2, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("kraft.version", 1, UPGRADE),
        ("no.such.feature", 0, SAFE_DOWNGRADE),
        ("", 1, UPGRADE),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
async def test_one_update_that_would_change_something_fails_all(broker: BrokerServer, ask, version: int, wrong) -> None:
    answer = await ask(broker, request(SAME, wrong), version)
    assert (answer.error_code, answer.results) == (InvalidUpdateVersion.code, [])
    assert wrong[0] in answer.error_message


def levels(broker: BrokerServer) -> dict[str, int]:
    return {feature.name: feature.level for feature in broker.features}


async def test_a_level_that_is_lowered_stays_so_until_it_is_raised(start_broker, ask) -> None:
    broker = await start_broker()
    assert levels(broker)["transaction.version"] == 2
    lower = request(SAME, ("transaction.version", 0, SAFE_DOWNGRADE))
    assert (await ask(broker, lower)).error_code == NONE
    assert (levels(broker)["transaction.version"], broker.controller.features_epoch) == (0, 1)
    await broker.stop()
    broker = await start_broker()
    assert (levels(broker)["transaction.version"], broker.controller.features_epoch) == (0, 1)
    for level, epoch in ((1, 2), (2, 3)):
        assert (await ask(broker, request(("transaction.version", level, UPGRADE)))).error_code == NONE
        assert (levels(broker)["transaction.version"], broker.controller.features_epoch) == (level, epoch)


async def test_version_0_says_in_its_own_way_that_a_level_may_be_lowered(broker: BrokerServer, ask) -> None:
    Feature = UpdateFeaturesRequest.FeatureUpdate
    for allowed, code in ((False, InvalidUpdateVersion.code), (True, NONE)):
        update = Feature(feature="transaction.version", max_version_level=0, allow_downgrade=allowed)
        answer = await ask(broker, UpdateFeaturesRequest(feature_updates=[update]), 0)
        assert answer.error_code == code


async def test_only_to_see_changes_nothing_and_neither_does_what_is_in_force(broker: BrokerServer, ask) -> None:
    only_to_see = request(("transaction.version", 0, UNSAFE_DOWNGRADE))
    only_to_see.validate_only = True
    assert (await ask(broker, only_to_see)).error_code == NONE
    assert (await ask(broker, request(("transaction.version", 2, UPGRADE)))).error_code == NONE
    assert (levels(broker)["transaction.version"], broker.controller.features_epoch) == (2, 0)


async def test_a_level_that_the_release_does_not_have_counts_as_the_nearest(start_broker, ask) -> None:
    broker = await start_broker()
    broker.controller.set_feature_levels({"transaction.version": 7, "metadata.version": 3})
    newer = {"group.version": 1, "share.version": 1, "streams.version": 1}
    assert levels(broker) == {"transaction.version": 2, "metadata.version": 7, **newer}


async def test_consumer_groups_are_offered_while_their_feature_is_above_0(broker: BrokerServer, ask) -> None:
    for level, kind in ((0, SAFE_DOWNGRADE), (1, UPGRADE), (0, UNSAFE_DOWNGRADE)):
        assert (await ask(broker, request(("group.version", level, kind)))).error_code == NONE
        assert levels(broker)["group.version"] == level
        assert broker.services.offers_consumer_groups == (level > 0)


async def test_streams_groups_are_offered_while_their_feature_is_above_0(broker: BrokerServer, ask) -> None:
    for level, kind in ((0, SAFE_DOWNGRADE), (1, UPGRADE), (0, UNSAFE_DOWNGRADE)):
        assert (await ask(broker, request(("streams.version", level, kind)))).error_code == NONE
        assert broker.services.offers_streams_groups == (level > 0)


async def test_share_groups_are_offered_while_their_feature_is_above_0(broker: BrokerServer, ask) -> None:
    for level, kind in ((0, SAFE_DOWNGRADE), (1, UPGRADE), (0, UNSAFE_DOWNGRADE)):
        assert (await ask(broker, request(("share.version", level, kind)))).error_code == NONE
        assert broker.services.offers_share_groups == (level > 0)
