"""The settings of a broker that runs: which of them can change, and the object that holds those in force (KIP-226).

| setting                                                  | changes while the broker runs                            |
|----------------------------------------------------------|----------------------------------------------------------|
| in the tables of broker_config.py                        | as its line says: `dynamic`, READ_ONLY or CLUSTER_WIDE   |
| a second name of one of those                            | no                                                       |
| Kafka's, without a meaning here (ignored_keys.py)        | where it does in Kafka                                   |
| `*.sasl.jaas.config`                                     | no: it holds passwords, which are not stored as they are |
| unknown                                                  | yes, as in Kafka                                         |

`controller/config_changes.py` checks and stores a change.
"""

from __future__ import annotations

from ...storage.config_key import READ_ONLY
from .broker_config import ALIASES, BROKER_KEYS, BrokerConfig
from .ignored_keys import can_be_changed, is_ignored


def is_dynamic(name: str) -> bool:
    """Whether the broker setting `name` can change while the broker runs."""
    if line := BROKER_KEYS.get(name):
        return line.dynamic != READ_ONLY
    if name.endswith(".sasl.jaas.config") or name in ALIASES:
        return False
    return not is_ignored(name) or can_be_changed(name)


class DynamicBrokerConfig:
    """Holds the settings in force. AlterConfigs replaces `current`, so a part of the broker keeps this object, not
    `current`."""

    __slots__ = ("current",)

    def __init__(self, config: BrokerConfig) -> None:
        self.current = config
        """The settings in force; a value that does not change."""
