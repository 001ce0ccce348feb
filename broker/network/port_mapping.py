"""Who reaches us through a port that a container engine publishes, and has to come back there and not to our address.

A container's own address is right for the other containers of its networks, and is what they are told. Whoever comes
through a published port of the host is seen as one of these: the gateway of our network (Docker's proxy and its NAT),
an address outside of all our networks (Docker Desktop), or our own address (engines without root). Outside of
containers nobody is taken for one.
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
"""Interfaces of an engine: whoever sees them has the host's own network, and nothing is mapped."""


class Network(NamedTuple):
    """An IPv4 network that we are a part of, as numbers."""

    address: int
    mask: int


class PortMapping:
    """What the kernel's routing table tells of the networks around us."""

    def __init__(self, routes: str) -> None:
        """`routes` is the text of /proc/net/route; an empty one is no network at all."""
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
        """Whether a connection from address `peer`, which reached us at `own`, came through a published port."""
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
    """The networks of this machine or container; none where the kernel does not tell."""
    try:
        with open(ROUTES, encoding="ascii") as file:
            return PortMapping(file.read())
    except OSError:
        return PortMapping("")


def is_behind_port_mapping(environ: Mapping[str, str]) -> bool:
    """Whether this is a container with a network of its own, of an engine that publishes ports of the host. Not so in
    Kubernetes, where every pod reaches every other one's address."""
    if "KUBERNETES_SERVICE_HOST" in environ or not any(map(os.path.exists, MARKS)):
        return False
    try:
        with open(ROUTES, encoding="ascii") as file:
            return not any(line.startswith(_OF_THE_HOST) for line in file)
    except OSError:
        return False


def _number(text: str) -> int:
    """A column of the table: the four bytes of an address, printed as a number of this machine."""
    return int.from_bytes(int(text, 16).to_bytes(4, sys.byteorder), "big")
