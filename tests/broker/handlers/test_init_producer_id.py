"""InitProducerId: ids for idempotent producers, and what is asked of transactional ones first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.protocol.errors import (
    NONE,
    InvalidRequest,
    InvalidTransactionTimeout,
    KafkaError,
    NotCoordinator,
)
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[Broker]]


def request(**fields: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 60_000, **fields})


@pytest.mark.parametrize("version", range(6))
async def test_every_producer_gets_an_id_of_its_own_and_epoch_0(broker: Broker, ask: Ask, version: int) -> None:
    answers = [await ask(broker, request(), version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(NONE, 0)] * 3
    assert len({answer.producer_id for answer in answers}) == 3


async def test_ids_are_not_given_out_again_after_a_restart(start_broker: StartBroker, ask: Ask) -> None:
    first = await start_broker()
    before = (await ask(first, request())).producer_id
    await first.stop()
    assert (await ask(await start_broker(), request())).producer_id > before


async def test_a_producer_that_gives_its_old_id_gets_a_new_one(broker: Broker, ask: Ask) -> None:
    answer = await ask(broker, request(producer_id=5_000_000, producer_epoch=3))
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    assert answer.producer_id != 5_000_000


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 5)])
async def test_half_an_identity_is_an_invalid_request(
    broker: Broker, ask: Ask, producer_id: int, producer_epoch: int
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
    broker: Broker, ask: Ask, transactional_id: str, timeout_ms: int, error: type[KafkaError]
) -> None:
    answer = await ask(broker, request(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms))
    assert (answer.error_code, answer.producer_id) == (error.code, -1)
