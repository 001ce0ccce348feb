"""The brokers of a cluster as doctor asks them.

Each broker is asked over one connection to an address that has worked, which need not be its advertised one. A question
has a time limit. One without an answer becomes a finding, and the examination goes on.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

from kmini.client import Address, Connection, ConnectionSettings
from kmini.doctor.findings import Finding
from kmini.protocol.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from kmini.protocol.schema import Request

PATIENCE = 2
"""Questions that a broker may leave unanswered before it is asked nothing more."""

SHOWN = 3
"""Most places of a refusal that are named."""

NOT_ALLOWED = (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)


class Brokers:
    """Asks brokers by node id. Ends with `close`."""

    def __init__(self, settings: ConnectionSettings, timeout_ms: int) -> None:
        self.settings = settings
        self.timeout_ms = timeout_ms
        self.routes: dict[int, Address] = {}
        """An address that leads to each broker, by node id: those that can be asked."""
        self._noted: list[Finding] = []
        self._refused: defaultdict[tuple[type[KafkaError], str, str], list[str]] = defaultdict(list)
        """The places of refused answers, by the error, its message and what stays unknown."""
        self._connections: dict[Address, Connection] = {}
        self._openings: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """A question that is not answered ends the connection, so each broker is asked one after the other."""
        self._unanswered: Counter[int] = Counter()

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
        self._connections.clear()

    async def connected(self, address: Address) -> Connection:
        """The connection to an address, opened if there is none. Raises KafkaError."""
        async with self._openings[address]:
            known = self._connections.get(address)
            if known is None or not known.is_open:
                known = await Connection.open(address, self.settings, timeout_ms=self.timeout_ms)
                self._connections[address] = known
            return known

    async def highest(self, node_id: int, request: type[Request]) -> int:
        """The highest version of a request that both sides have; -1 if there is none, or if the broker is not
        reached."""
        try:
            return (await self.connected(self.routes[node_id])).version_for(request)
        except KafkaError:
            return -1

    async def ask(self, node_id: int, request: Request, unknown: str, *, highest: int | None = None) -> Any:
        """The answer of a broker; None, after a finding, if there is none. `unknown` is what stays unknown then, as in
        "groups"; `highest` is the last version that may be used."""
        if node_id not in self.routes or self._unanswered[node_id] >= PATIENCE:
            return None
        async with self._turns[node_id]:
            try:
                connection = await self.connected(self.routes[node_id])
                version = connection.version_for(type(request))
                version = version if highest is None else min(version, highest)
                return await connection.send(request, version=version, timeout_ms=self.timeout_ms)
            except UnsupportedVersion:
                self.note("question-not-served", f"broker {node_id} does not serve {request.name}: no {unknown} shown")
            except KafkaError as error:
                self._unanswered[node_id] += 1
                after = f" within {self.timeout_ms / 1_000:g} s" if isinstance(error, RequestTimedOut) else ""
                self.note(
                    "question-unanswered",
                    f"broker {node_id} did not answer {request.name}{after}, so its {unknown} are unknown: "
                    f"{error.message}",
                    "look at the log of the broker; --timeout-ms gives it more time",
                )
                if self._unanswered[node_id] == PATIENCE:
                    self.note("question-unanswered", f"broker {node_id} was asked nothing more")
        return None

    def refused(self, error: KafkaError, unknown: str, where: str) -> None:
        """Keep an error that an answer holds. `where` is "group 'a'"; errors alike are told together."""
        places = self._refused[type(error), error.message, unknown]
        if where not in places:
            places.append(where)

    def note(self, name: str, text: str, change: str = "") -> None:
        """Keep a finding, once."""
        finding = Finding(name, text, change)
        if finding not in self._noted:
            self._noted.append(finding)

    @property
    def findings(self) -> list[Finding]:
        """What could not be asked, or was refused."""
        refused = []
        for (kind, message, unknown), places in self._refused.items():
            more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
            where = f"{unknown} of {', '.join(places[:SHOWN])}{more}"
            if issubclass(kind, NOT_ALLOWED):
                change = "give this user the operation DESCRIBE, or DESCRIBE_CONFIGS, there to have them examined"
                refused.append(Finding("not-allowed-to-see", f"not allowed to see {where} ({kind.kafka_name})", change))
            else:
                text = f"{where} are unknown: {kind.kafka_name} {message}".rstrip()
                refused.append(Finding("question-unanswered", text, "run kmini doctor again; look at the broker's log"))
        return [*self._noted, *refused]
