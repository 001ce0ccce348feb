"""Tests against a broker, or a cluster, of kmini that runs elsewhere and has a control API: `--kafka-bootstrap` names
its address, as http://127.0.0.1:8090. Each test finds it as it was after its start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from kmini.argument_checks import config as checked_config
from kmini.pytest_plugin.elsewhere import skip
from kmini.pytest_plugin.marker import Wanted
from kmini.pytest_plugin.starting import Kind

TOKEN_VARIABLE = "KMINI_HTTP_TOKEN"
"""The variable that has the token of the control API, as for `kmini serve`."""


def is_control_url(bootstrap_servers: str) -> bool:
    """Whether the setting of the run names a control API, and no addresses of brokers."""
    return bootstrap_servers.startswith(("http://", "https://"))


def connected_broker(config: pytest.Config, url: str) -> Any:
    """Connect to a control API. Raises pytest.UsageError where none answers, and for several workers, which would
    reset each other's broker."""
    if int(getattr(config, "workerinput", {}).get("workercount", 1)) > 1:
        raise pytest.UsageError(f"{url} is one broker, and each worker of pytest-xdist resets it: run without -n")
    try:
        from kmini.control.connected import connect

        return connect(url, token=os.environ.get(TOKEN_VARIABLE))
    except (ImportError, RuntimeError) as error:
        raise pytest.UsageError(f"--kafka-bootstrap={url}: {error}") from None


def check_meets(broker: Any, kind: Kind, asks: Wanted, config: Mapping[str, Any]) -> None:
    """Skip a test that needs another broker: a cluster, other settings, another release. A broker that the test before
    has stopped is started."""
    found = broker.describe()
    if not found.addresses:
        broker.start()
        found = broker.describe()
    runs = f"{broker.url} is a {found.kind} of {len(found.node_ids)}"
    if found.kind != kind:
        skip(f"{kind} of the test's own", runs)
    if asks.brokers not in (None, len(found.node_ids)):
        skip(f"brokers={asks.brokers} of the marker", runs)
    if asks.as_version is not None:
        skip(f"as_version={asks.as_version} of the marker", f"{broker.url} was started without it")
    if asks.registry and not broker.registry_url:
        skip("registry=True of the marker", f"{broker.url} has no schema registry")
    wanted = checked_config("config", {**config, **asks.config})
    if different := broker.different_settings(wanted):
        skip(f"{', '.join(different)}", f"{broker.url} was started otherwise")
