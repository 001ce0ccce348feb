"""Which clients count as having come through a container's published port."""

from __future__ import annotations

import socket
import sys

import pytest

from kmini.broker.network import port_mapping
from kmini.broker.network.port_mapping import PortMapping
from kmini.broker.settings.broker_config import BrokerConfig, ConfigError

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def route(interface: str, destination: str, gateway: str, mask: str) -> str:
    """A line as the kernel prints it: addresses as numbers of this machine."""

    def column(address: str) -> str:
        return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}"

    return f"{interface}\t{column(destination)}\t{column(gateway)}\t0003\t0\t0\t0\t{column(mask)}\t0\t0\t0\n"


DEFAULT = route("eth0", "0.0.0.0", "172.18.0.1", "0.0.0.0")
BRIDGE = route("eth0", "172.18.0.0", "0.0.0.0", "255.255.0.0")
SECOND = route("eth1", "10.5.0.0", "0.0.0.0", "255.255.255.0")
CONTAINER = HEAD + DEFAULT + BRIDGE + SECOND
OWN = "172.18.0.2"


@pytest.mark.parametrize(
    ("peer", "is_mapped"),
    [
        ("172.18.0.3", False),  # a container beside us
        ("10.5.0.77", False),  # one on another network that we are on
        ("172.18.0.1", True),  # Docker's proxy, and its NAT of the host's own connections
        ("172.18.0.2", True),  # engines without root
        ("192.168.65.1", True),  # Docker Desktop
        ("203.0.113.9", True),  # another machine, to which no address of ours would mean anything
        ("127.0.0.1", False),  # the health check
        ("::1", False),
        ("fe80::1", False),
    ],
)
def test_connections_through_a_published_port_are_recognized(peer: str, is_mapped: bool) -> None:
    assert PortMapping(CONTAINER).was_passed_by(peer, OWN) is is_mapped


@pytest.mark.parametrize("routes", ["", HEAD, "nothing\nlike a table\n"])
def test_without_a_network_no_port_is_published(routes: str) -> None:
    assert not PortMapping(routes).was_passed_by("203.0.113.9", OWN)


@pytest.mark.parametrize(
    ("marks", "routes", "environ", "is_behind"),
    [
        (True, CONTAINER, {}, True),
        (False, CONTAINER, {}, False),  # no container
        (True, CONTAINER, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
        (True, CONTAINER + route("docker0", "172.17.0.0", "0.0.0.0", "255.255.0.0"), {}, False),  # the host's network
        (True, None, {}, False),
    ],
)
def test_published_ports_are_expected_in_containers_with_a_network_of_their_own(
    marks, routes, environ, is_behind, tmp_path, monkeypatch
) -> None:
    table = tmp_path / "route"
    if routes is not None:
        table.write_text(routes)
    monkeypatch.setattr(port_mapping, "ROUTES", str(table))
    monkeypatch.setattr(port_mapping, "MARKS", (str(tmp_path if marks else tmp_path / "nowhere"),))
    assert port_mapping.is_behind_port_mapping(environ) is is_behind


def test_a_published_port_of_no_listener_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kmini\.mapped\.listeners=C://…: there is no listener of that name"):
        BrokerConfig.parse({"kmini.mapped.listeners": "C://localhost:1"})
