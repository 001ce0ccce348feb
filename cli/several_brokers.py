"""`kmini serve --brokers NUMBER`: the settings of each broker, from those of the first."""

from __future__ import annotations

from collections.abc import Mapping

import click

from kmini.broker.settings.broker_config import BrokerConfig
from kmini.cli.environment import MAX_PORT


def configs_after(config: BrokerConfig, count: int) -> list[BrokerConfig]:
    """The configurations of the brokers after the first, for `count` in all: in each, node id and ports are one higher.
    Raises click.UsageError where ports would meet or end."""
    taken = {(one.host, one.port): config.node_id for one in config.listeners}
    configs = []
    for more in range(1, count):
        node_id = config.node_id + more
        listeners = tuple(one._replace(port=_port_after(one.port, more)) for one in config.listeners)
        for listener in listeners:
            if listener.port and (listener.host, listener.port) in taken:
                raise click.UsageError(
                    f"--brokers {count}: broker {node_id} would listen at {listener.address}, as broker "
                    f"{taken[listener.host, listener.port]} does; set ports in `listeners` that lie further apart"
                )
            taken[listener.host, listener.port] = node_id
        configs.append(
            config.replace(
                node_id=node_id,
                listeners=listeners,
                advertised_listeners=_addresses_after(config.advertised_listeners, more),
                kmini_mapped_listeners=_addresses_after(config.kmini_mapped_listeners, more),
            )
        )
    return configs


def _addresses_after(told: Mapping[str, tuple[str, int]], more: int) -> dict[str, tuple[str, int]]:
    """What clients of the broker `more` places later are told, by listener."""
    return {name: (host, _port_after(port, more)) for name, (host, port) in told.items()}


def _port_after(port: int, more: int) -> int:
    """The port of the broker `more` places later; any free port if the first one has any."""
    if port and port + more > MAX_PORT:
        raise click.UsageError(f"--brokers: there is no port {port + more}; choose a smaller one with --port")
    return port + more if port else 0
