"""Rules about new connections."""

from __future__ import annotations

import pytest

from kmini import Broker
from kmini.protocol import messages as m
from kmini.testing import ConnectionClosed, Wire

pytestmark = pytest.mark.sockets


def test_new_connections_are_refused_and_those_that_exist_go_on(broker: Broker, wire: Wire) -> None:
    wire.ask(m.ListGroupsRequest(), 2)
    rule = broker.faults.on("connect").once().refuse()
    with pytest.raises((ConnectionClosed, OSError)), Wire(broker.bootstrap_servers) as refused:
        refused.ask(m.ListGroupsRequest(), 2)
    rule.assert_hit(times=1)
    wire.ask(m.ListGroupsRequest(), 2)
    with Wire(broker.bootstrap_servers) as later:
        later.ask(m.ListGroupsRequest(), 2)


def test_a_silent_connection_is_served_when_the_rule_is_removed(broker: Broker) -> None:
    rule = broker.faults.on("connect", connection="127.0.0.1:*", listener="PLAINTEXT").silent()
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(m.ListGroupsRequest(), 2)
        rule.wait_hit()
        assert [client.waits_for for client in broker.clients()] == [""]
        asked = broker.faults.on("ListGroups").delay(0)
        assert asked.seen == 0
        rule.remove()
        asked.wait_hit()


def test_a_client_of_a_silent_connection_may_leave(broker: Broker) -> None:
    with broker.faults.on("connect").silent() as rule, Wire(broker.bootstrap_servers) as wire:
        wire.send(m.ListGroupsRequest(), 2)
        rule.wait_hit()
    with Wire(broker.bootstrap_servers) as later:
        later.ask(m.ListGroupsRequest(), 2)


def test_a_broker_stops_at_once_while_a_connection_is_silent() -> None:
    with Broker() as broker:
        broker.faults.on("connect").silent()
        silent = Wire(broker.bootstrap_servers)
        broker.faults.rules()[0].wait_hit()
    silent.close()
