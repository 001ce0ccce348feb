"""UpdateFeatures, versions 0 to 2: raise or lower the levels of cluster-wide features (KIP-584, KIP-778).

All updates of a request are made, or none. INVALID_UPDATE_VERSION refuses one

- of an unknown feature, or to a level that the feature does not have,
- of an unknown type,
- to a lower level than the one in force, if the update is no downgrade,
- to a lower level of `metadata.version`, which would be another format of the metadata; Kafka refuses it too.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import InvalidUpdateVersion
from ...protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..api.registry import handles
from ..api.releases import METADATA_VERSION, Feature
from ..api.request_context import Context
from ..security.guarding import on_cluster, refused_by_code
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType


@handles(
    UpdateFeaturesRequest,
    needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)],
    guard=on_cluster(refused_by_code(UpdateFeaturesResponse)),
)
async def update_features(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    """Check every update, then make all that change something, unless the request only validates."""
    features = context.services.features
    for update in request.feature_updates:
        fault = _fault(update, _upgrade_type(update, context.version), features)
        if fault is not None:
            return UpdateFeaturesResponse(
                error_code=InvalidUpdateVersion.code, error_message=f"feature {update.feature}: {fault}"
            )
    in_force = {feature.name: feature.level for feature in features}
    wanted = {update.feature: update.max_version_level for update in request.feature_updates}
    changes = {name: level for name, level in wanted.items() if level != in_force[name]}
    if changes and not request.validate_only:
        context.services.controller.set_feature_levels(changes)
    return UpdateFeaturesResponse(
        results=[UpdateFeaturesResponse.Result(feature=update.feature) for update in request.feature_updates]
    )


def _upgrade_type(update: UpdateFeaturesRequest.FeatureUpdate, version: int) -> int:
    """Version 0 knows only upgrades and downgrades."""
    if version == 0:
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return update.upgrade_type


def _fault(update: UpdateFeaturesRequest.FeatureUpdate, upgrade_type: int, features: Iterable[Feature]) -> str | None:
    level = update.max_version_level
    feature = next((feature for feature in features if feature.name == update.feature), None)
    if feature is None:
        return "not supported"
    if not feature.min_level <= level <= feature.max_level:
        return f"level {level} is not between {feature.min_level} and {feature.max_level}"
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"there is no upgrade type {upgrade_type}"
    if level < feature.level and feature.name == METADATA_VERSION:
        return "metadata would be lost"
    if level < feature.level and upgrade_type == UPGRADE:
        return f"the level is {feature.level}, and the update is no downgrade"
    return None
