"""Clients with quotas at a broker whose clock stands still: bytes go into connections without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.security.resources import Principal
from kmini.protocol.errors import NONE
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Request
from support.broker.asking import ask_handler
from support.broker.consumer_lab import StillClock
from support.broker.fed_connection import FedConnection
from support.broker.quota_requests import Entity, set_quotas

HEADER_BYTES = 8
"""The size and the correlation id before an answer; flexible versions have a byte of tags behind them."""


def produce(value_bytes: int, topic: str = "t", acks: int = 1) -> ProduceRequest:
    records = build_batch([Record(0, 1_000, None, bytes(value_bytes))])
    data = ProduceRequest.Topic(name=topic, partition_data=[ProduceRequest.Partition(index=0, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[data])


def size_of(request: Request, version: int, client_id: str) -> int:
    """The bytes of a request that count: its header and its body."""
    header_bytes = 10 + len(client_id) + request.header_version(version) - 1
    return header_bytes + sum(map(len, request.encode(version)))


class QuotaClient(FedConnection):
    """A client that has logged in as `user`."""

    def __init__(self, broker: BrokerServer, user: str, client_id: str) -> None:
        self.written: list[tuple[str, bytes]] = []
        super().__init__(broker, f"{user}/{client_id}", self.written)
        self.connection.principal = Principal.user(user)
        self.client_id = client_id

    def ask(self, request: Request, version: int) -> Any:
        """The answer; None while there is none."""
        self.written.clear()
        self.send((request, version))
        return self.answer(request, version)

    def answer(self, request: Request, version: int) -> Any:
        if not self.written:
            return None
        content = b"".join(piece for _, piece in self.written)
        response = request.response
        return response.decode(content[HEADER_BYTES + response.header_version(version) :], version)

    @property
    def is_served(self) -> bool:
        """Whether a request is answered at once."""
        return self.ask(MetadataRequest(topics=[]), 9) is not None


class QuotaLab:
    """A broker with the topic "t"; its clock moves when it is advanced."""

    def __init__(self, broker: BrokerServer) -> None:
        self.broker = broker
        if broker.controller.topic("t") is None:
            topics.create(broker, "t", partitions=1)

    async def set(self, entity: Entity, quotas: dict[str, float | None]) -> None:
        assert await set_quotas(ask_handler, self.broker, entity, quotas) == NONE

    async def advance(self, duration_ms: int) -> None:
        assert isinstance(self.broker.clock, StillClock)
        await asyncio.sleep(0)  # a muted connection with a request begins to wait
        await self.broker.clock.advance(duration_ms, liveness=True)

    def client(self, user: str = "ann", client_id: str = "app") -> QuotaClient:
        return QuotaClient(self.broker, user, client_id)
