"""The settings that were made while the broker ran before, read when it starts; `config_changes.py` makes them."""

from __future__ import annotations

import logging

from ..settings.broker_config import BROKER_KEYS, BrokerConfig
from .controller import Controller

log = logging.getLogger("kmini.config")


def stored_config(config: BrokerConfig, controller: Controller) -> BrokerConfig:
    """The settings of a broker that starts: those it is given, under what was set while it ran before.

    What cannot be any more is left out, and logged.
    """
    layers = []
    for name in ("", str(config.node_id)):
        usable = {}
        for key, text in controller.broker_configs(name).items():
            line = BROKER_KEYS.get(key)
            try:
                if line is not None:
                    line.parse(text, may_be_unset=False)
                usable[key] = text
            except ValueError as error:
                log.error("a setting that was made while the broker ran is left out: %s", error)
        layers.append(usable)
    try:
        return config.with_dynamic(*layers) if any(layers) or config.static is not None else config
    except ValueError as error:
        log.error("the settings that were made while the broker ran are left out: %s", error)
        return config
