"""Detects clients that arrive through a port that a container engine publishes: they have to return to that port.

The other containers of a container's networks reach its own address, and are told that. A client that arrives through
a published port of the host has one of these addresses: the gateway of a network of the container (Docker's proxy and
its NAT), an address outside of all its networks (Docker Desktop), or the container's own address (engines without
root). Outside of containers no client is taken for such a one.
"""

import os
import socket
import sys
from collections.abc import Mapping
from typing import NamedTuple

ROUTES = "/proc/net/route"
MARKS = ("/.dockerenv", "/run/.containerenv")
"""Files that Docker and Podman put into every container."""

_OF_THE_HOST = ("docker", "br-", "veth", "podman", "cni")
"""Prefixes of an engine's interfaces. A process that sees one shares the host's network, where no port is mapped."""


class Network(NamedTuple):
    """An IPv4 network of this machine or container, as numbers."""

    address: int
    mask: int


class PortMapping:
    """The networks and gateways in the kernel's routing table."""

    def __init__(self, routes: str) -> None:
        """`routes` is the text of /proc/net/route; an empty text is no network."""
        self.gateways: set[str] = set()
        self.networks: list[Network] = []
        for line in routes.splitlines()[1:]:
            fields = line.split()
            if len(fields) < 8:
                continue
            destination, gateway, mask = (_number(fields[column]) for column in (1, 2, 7))
            if gateway:
                self.gateways.add(socket.inet_ntoa(gateway.to_bytes(4, "big")))
            elif mask:
                self.networks.append(Network(destination, mask))

    def was_passed_by(self, peer: str, own: str) -> bool:
        """Whether a connection from address `peer` to the broker's address `own` came through a published port."""
        if not self.networks or ":" in peer or peer.startswith("127."):
            return False
        if peer in self.gateways or peer == own:
            return True
        try:
            number = int.from_bytes(socket.inet_aton(peer), "big")
        except OSError:
            return False
        return all(number & network.mask != network.address for network in self.networks)


def read_routes() -> PortMapping:
    """Read the networks of this machine or container; none on a system without /proc/net/route."""
    try:
        with open(ROUTES, encoding="ascii") as file:
            return PortMapping(file.read())
    except OSError:
        return PortMapping("")


def is_behind_port_mapping(environ: Mapping[str, str]) -> bool:
    """Whether this is a container with a network of its own, under an engine that publishes ports of the host.

    False in Kubernetes, where every pod reaches the address of every other.
    """
    if "KUBERNETES_SERVICE_HOST" in environ or not any(map(os.path.exists, MARKS)):
        return False
    try:
        with open(ROUTES, encoding="ascii") as file:
            return not any(line.startswith(_OF_THE_HOST) for line in file)
    except OSError:
        return False


def _number(text: str) -> int:
    """Parse a column of the table: the four bytes of an address, printed as a number in this machine's byte order."""
    return int.from_bytes(int(text, 16).to_bytes(4, sys.byteorder), "big")
