"""Levels of a broker's features, changed as administrators change them."""

from __future__ import annotations

from kmini.protocol.messages.update_features import UNSAFE_DOWNGRADE, UPGRADE, UpdateFeaturesRequest
from kmini.testing import Wire


def set_transaction_version(servers: str, level: int) -> None:
    """Set `transaction.version`: from 2 on clients that can use the second version of transactions."""
    Update = UpdateFeaturesRequest.FeatureUpdate
    with Wire(servers) as wire:
        codes = [
            wire.ask(UpdateFeaturesRequest(feature_updates=[update]), 2).error_code
            for update in (
                Update(feature="transaction.version", max_version_level=0, upgrade_type=UNSAFE_DOWNGRADE),
                Update(feature="transaction.version", max_version_level=level, upgrade_type=UPGRADE),
            )
        ]
    assert codes == [0, 0]
