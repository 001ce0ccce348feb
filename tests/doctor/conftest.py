"""The findings of doctor about a Kafka, and a table of addresses in the place of the system's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from kmini.client import parse_addresses
from kmini.doctor.examination import examine
from kmini.doctor.findings import Finding

Examine = Callable[..., "dict[str, Finding]"]


@pytest.fixture
def diagnose() -> Examine:
    """Examine the Kafka at these addresses; what is found by its name, the first of each."""

    def run(bootstrap_servers: str, **options: Any) -> dict[str, Finding]:
        options = {"timeout_ms": 10_000, **options}
        found = asyncio.run(examine(parse_addresses(bootstrap_servers), **options))
        return {finding.name: finding for finding in reversed(found)}

    return run


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | None], None]:
    """Let a host name resolve to an address, or (None) to none; no other question leaves this machine."""
    table: dict[str, str | None] = {}
    resolve = socket.getaddrinfo

    def look_up(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host not in table:
            return resolve(host, port, *arguments, **options)
        address = table[host]
        if address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(address, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return table.__setitem__
