"""Listeners: the settings about them and the rules between these.

`listeners=PLAINTEXT://127.0.0.1:9092,DOCKER://:19092` names addresses to bind; `advertised.listeners` gives, by the
same names, the addresses that clients are told; `advertised_addresses.py` chooses the one for a client.
`listener.security.protocol.map` maps names to security protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...storage.config_key import MAX_INT, ConfigType, Rule, shorten, split_list

if TYPE_CHECKING:
    from ..security.security_settings import SaslSettings
    from ..security.tls import ListenerTls

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Endpoint(NamedTuple):
    """A named address to bind. An empty host is every address of the machine; port 0 is any free port."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def address(self) -> str:
        """host:port, as a client on this machine would say it."""
        host = "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class Listener(NamedTuple):
    """A listener that is bound."""

    name: str
    host: str
    port: int
    advertised: tuple[str, int] | None = None
    """Host and port that its clients are told; None for those at which they arrived."""
    sasl: SaslSettings | None = None
    """How its clients authenticate; None without SASL."""
    tls: ListenerTls | None = None
    """Keys and rules of TLS; None without TLS."""

    @property
    def address(self) -> str:
        """host:port, as a client on this machine would say it."""
        return Endpoint(self.name, self.host, self.port).address


def parse_endpoint(text: str) -> Endpoint:
    """Parse `NAME://host:port`, with the name in any case and an IPv6 address in brackets.

    Raises ValueError, which says what was expected.
    """
    name, separator, address = text.partition("://")
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    if not (separator and name and _NAME_CHARACTERS.issuperset(name) and _is_host(host) and is_port):
        raise ValueError(f"{shorten(text)} is not of the form NAME://host:port")
    return Endpoint(name.upper(), host.strip("[]"), int(port))


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return ":" in host and set(host) <= set("[]0123456789abcdefABCDEF:.%")
    return _NAME_CHARACTERS.issuperset(host)


def split_endpoints(text: str) -> tuple[str, ...]:
    """Return the items of a list of endpoints without the empty ones, because Testcontainers for .NET ends such a list
    with a comma. Apache Kafka drops them too, or refuses them since KIP-1161."""
    return tuple(filter(None, split_list(text)))


def _split_map(text: str) -> tuple[str, ...]:
    """Return the items of a list of pairs. As in Apache Kafka, empty items are dropped at its end only."""
    return split_list(text.rstrip(", "))


def _parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    endpoints = tuple(map(parse_endpoint, split_endpoints(text)))
    if len({endpoint.name for endpoint in endpoints}) < len(endpoints):
        raise ValueError("a listener name may occur once only")
    return endpoints


def _text_of_endpoints(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(map(str, endpoints))


def _parse_addresses(text: str) -> dict[str, tuple[str, int]]:
    return {name: (host, port) for name, host, port in _parse_endpoints(text)}


def _text_of_addresses(addresses: Mapping[str, tuple[str, int]]) -> str:
    return _text_of_endpoints(Endpoint(name, *address) for name, address in addresses.items())


def _parse_protocol_map(text: str) -> dict[str, str]:
    protocols = {}
    for item in _split_map(text):
        name, colon, protocol = item.partition(":")
        if not colon or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise ValueError(f"{shorten(item)} is not of the form NAME:{'|'.join(SECURITY_PROTOCOLS)}")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _text_of_protocol_map(protocols: Mapping[str, str]) -> str:
    return ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())


def _parse_host_limits(text: str) -> dict[str, int]:
    limits = {}
    for item in _split_map(text):
        host, colon, limit = (part.strip() for part in item.rpartition(":"))
        if not (colon and host and limit.isascii() and limit.isdigit() and len(limit) <= 10 and int(limit) <= MAX_INT):
            raise ValueError(f"{shorten(item)} is not of the form address:limit")
        limits[host.strip("[]")] = int(limit)
    return limits


def _text_of_host_limits(limits: Mapping[str, int]) -> str:
    return ",".join(f"[{host}]:{limit}" if ":" in host else f"{host}:{limit}" for host, limit in limits.items())


ENDPOINTS = ConfigType("list", _parse_endpoints, _text_of_endpoints)
"""A tuple of Endpoint."""
ADDRESSES = ConfigType("list", _parse_addresses, _text_of_addresses)
"""Host and port by listener name."""
PROTOCOL_MAP = ConfigType("string", _parse_protocol_map, _text_of_protocol_map)
"""Security protocol by listener name."""
HOST_LIMITS = ConfigType("string", _parse_host_limits, _text_of_host_limits)
"""A number of connections by address."""

NOT_EMPTY = Rule("must name at least one", bool)
REACHABLE = Rule(
    "must name addresses that clients can connect to",
    lambda addresses: all(host not in ("", "0.0.0.0", "::") and port for host, port in addresses.values()),
)


def check_listeners(
    listeners: Iterable[Endpoint], advertised: Mapping[str, tuple[str, int]], protocols: Mapping[str, str]
) -> None:
    """Check the rules between the three settings. Raises ValueError naming key, value and rule."""
    names = {endpoint.name for endpoint in listeners}
    for endpoint in listeners:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            raise ValueError(f"listeners={endpoint}: {endpoint.name} has no entry in listener.security.protocol.map")
    bound = [(endpoint.host, endpoint.port) for endpoint in listeners if endpoint.port]
    if len(set(bound)) < len(bound):
        raise ValueError(f"listeners={_text_of_endpoints(listeners)}: two listeners cannot have the same host and port")
    for name in advertised:
        if name not in names:
            raise ValueError(f"advertised.listeners={name}://…: there is no listener of that name")
