"""The settings that were made while the broker ran before, read when it starts; `config_changes.py` makes them."""

from __future__ import annotations

import logging

from ..settings.broker_config import BROKER_KEYS, BrokerConfig
from .controller import Controller

log = logging.getLogger("kmini.config")


def stored_config(config: BrokerConfig, controller: Controller) -> BrokerConfig:
    """The settings of a broker that starts: those it is given, under what was set while it ran before.

    A setting whose rule it breaks is left out, and logged. One that is out of bounds which were set since takes the
    nearest bound, as in Kafka.
    """
    layers = []
    for name in ("", str(config.node_id)):
        usable = {}
        for key, text in controller.broker_configs(name).items():
            line = BROKER_KEYS.get(key)
            try:
                if line is not None:
                    value = line.parse(text, may_be_unset=False)
                    if (clamped := config.clamped(key, value)) != value:
                        log.warning("%s=%s is out of its bounds by now: %s is in force", key, value, clamped)
                        text = str(clamped)
                usable[key] = text
            except ValueError as error:
                log.error("a setting that was made while the broker ran is left out: %s", error)
        layers.append(usable)
    try:
        return config.with_dynamic(*layers) if any(layers) or config.static is not None else config
    except ValueError as error:
        log.error("the settings that were made while the broker ran are left out: %s", error)
        return config
