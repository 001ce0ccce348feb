"""Addresses of brokers: host and port, from text and back."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Advertised(NamedTuple):
    """A broker's address as another broker names it, in its metadata or as a coordinator."""

    node_id: int
    address: Address
    named_by: Address

    def __str__(self) -> str:
        return f"broker {self.node_id} at {self.address}, as {self.named_by} advertises it"


def parse_addresses(text: str) -> list[Address]:
    """Parse bootstrap servers, `host:port,host:port`; 9092 for a missing port. The ValueError says what was
    expected."""
    addresses = [_parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError(f"{text!r} names no broker: host:port was expected")
    return addresses


def _parse_address(text: str) -> Address:
    if text.isascii() and text.isdigit():
        raise ValueError(f"{text!r} is a port alone: host:port was expected, as 127.0.0.1:{text}")
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is no address: host:port was expected")
    return Address(host.strip("[]"), int(port))
