"""The settings of a broker that runs: one object, which every part of the broker shares.

The tables of `broker_config` say which settings can change while a broker runs, and `controller/config_changes` checks
and stores a change.
"""

from __future__ import annotations

from .broker_config import BrokerConfig


class DynamicBrokerConfig:
    """Holds the settings in force. AlterConfigs replaces `current`, so a part of the broker keeps this object, not
    `current`."""

    __slots__ = ("current",)

    def __init__(self, config: BrokerConfig) -> None:
        self.current = config
        """The settings in force; a value that does not change."""
