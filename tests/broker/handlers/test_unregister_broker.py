"""UnregisterBroker: what is gone may be forgotten."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller.topology import BrokerRegistration
from kmini.protocol.errors import NONE, BrokerIdNotRegistered, InvalidRequest
from kmini.protocol.messages.unregister_broker import UnregisterBrokerRequest

EXAMPLE = UnregisterBrokerRequest(broker_id=99)


@pytest.mark.parametrize(("broker_id", "error"), [(2, BrokerIdNotRegistered), (-1, BrokerIdNotRegistered)])
async def test_an_unknown_broker_cannot_be_unregistered(broker: BrokerServer, ask, broker_id: int, error) -> None:
    answer = await ask(broker, UnregisterBrokerRequest(broker_id=broker_id))
    assert answer.error_code == error.code
    assert str(broker_id) in answer.error_message


async def test_nor_can_one_that_runs(broker: BrokerServer, ask) -> None:
    answer = await ask(broker, UnregisterBrokerRequest(broker_id=1))
    assert answer.error_code == InvalidRequest.code
    assert [registration.node_id for registration in broker.controller.brokers] == [1]


async def test_one_that_is_dead_is_forgotten_until_it_comes_back(broker: BrokerServer, ask) -> None:
    broker.controller.register(BrokerRegistration(2))
    broker.controller.fence(2)
    assert [(await ask(broker, UnregisterBrokerRequest(broker_id=2))).error_code for _ in range(2)] == [
        NONE,
        BrokerIdNotRegistered.code,
    ]
    assert {*broker.controller.registered} == {1}
