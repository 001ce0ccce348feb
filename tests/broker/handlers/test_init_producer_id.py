"""InitProducerId: ids for idempotent producers, and what is asked of transactional ones first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import (
    NONE,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTransactionTimeout,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
)
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest
from support.broker.txn_client import TxnClient


def example(resource: ResourceType, topic_id: bytes) -> InitProducerIdRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    is_id = resource is ResourceType.TRANSACTIONAL_ID
    return InitProducerIdRequest(transactional_id="payments" if is_id else None, transaction_timeout_ms=1000)


Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


def request(**fields: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 60_000, **fields})


@pytest.mark.parametrize("version", range(6))
async def test_every_producer_gets_an_id_of_its_own_and_epoch_0(broker: BrokerServer, ask: Ask, version: int) -> None:
    answers = [await ask(broker, request(), version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(NONE, 0)] * 3
    assert len({answer.producer_id for answer in answers}) == 3


async def test_ids_are_not_given_out_again_after_a_restart(start_broker: StartBroker, ask: Ask) -> None:
    first = await start_broker()
    before = (await ask(first, request())).producer_id
    await first.stop()
    assert (await ask(await start_broker(), request())).producer_id > before


async def test_a_producer_that_gives_its_old_id_gets_a_new_one(broker: BrokerServer, ask: Ask) -> None:
    answer = await ask(broker, request(producer_id=5_000_000, producer_epoch=3))
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    assert answer.producer_id != 5_000_000


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 5)])
async def test_half_an_identity_is_an_invalid_request(
    broker: BrokerServer, ask: Ask, producer_id: int, producer_epoch: int
) -> None:
    answer = await ask(broker, request(producer_id=producer_id, producer_epoch=producer_epoch))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (InvalidRequest.code, -1, -1)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 1000, InvalidRequest),
        ("t", 0, InvalidTransactionTimeout),
        ("t", 900_001, InvalidTransactionTimeout),
        ("t", 900_000, NotCoordinator),
    ],
)
async def test_a_transactional_id_is_checked_and_then_needs_its_coordinator(
    broker: BrokerServer, ask: Ask, transactional_id: str, timeout_ms: int, error: type[KafkaError]
) -> None:
    answer = await ask(broker, request(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms))
    assert (answer.error_code, answer.producer_id) == (error.code, -1)


@pytest.mark.parametrize("version", range(6))
async def test_every_init_raises_the_epoch(client: TxnClient, version: int) -> None:
    first = await client.init(version)
    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    second = await client.init(version)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@pytest.mark.parametrize("version", range(3, 6))
async def test_a_stale_identity_is_fenced_by_its_name(client: TxnClient, version: int) -> None:
    await client.init()
    for epoch in range(1, 3):
        await client.init()
        assert client.epoch == epoch
    refused = await client.init(version, producer_id=client.producer_id, producer_epoch=0)
    assert refused.error_code == (InvalidProducerEpoch if version == 3 else ProducerFenced).code
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
