"""UnregisterBroker, where every known broker runs."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import BrokerIdNotRegistered, InvalidRequest
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
