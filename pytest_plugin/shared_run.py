"""The one broker of all workers of pytest-xdist (`--kafka-shared`). It runs in the process that controls them."""

from __future__ import annotations

import pytest

from kmini import Broker
from kmini.pytest_plugin.marker import Wanted
from kmini.pytest_plugin.options import Settings
from kmini.pytest_plugin.starting import Spec

_BROKER = pytest.StashKey[Broker]()


def address(config: pytest.Config, settings: Settings) -> str:
    """Return the address of the broker, which starts with the first worker and ends with the run."""
    if _BROKER not in config.stash:
        broker = Spec.of("broker", Wanted(), settings.config).make_of_options()
        assert isinstance(broker, Broker)
        config.stash[_BROKER] = broker.start()
        config.add_cleanup(broker.close)
    return config.stash[_BROKER].bootstrap_servers
