"""Questions that are not answered: each is told in a sentence, and the rest goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from kmini import Broker
from kmini.client import ConnectionSettings, parse_addresses
from kmini.doctor.asking import PATIENCE, Brokers
from kmini.protocol.errors import GroupAuthorizationFailed, NotCoordinator
from kmini.protocol.messages.list_groups import ListGroupsRequest
from kmini.protocol.messages.list_transactions import ListTransactionsRequest


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(journal=True) as running:
        yield running


@pytest.fixture
async def brokers(broker: Broker) -> AsyncIterator[Brokers]:
    """`broker` as doctor asks it, with little patience."""
    asked = Brokers(ConnectionSettings(), 300)
    asked.routes[1] = parse_addresses(broker.bootstrap_servers)[0]
    yield asked
    await asked.close()


def names(brokers: Brokers) -> list[str]:
    return [finding.name for finding in brokers.findings]


async def test_a_question_that_hangs_is_told_and_the_next_one_is_asked(broker: Broker, brokers: Brokers) -> None:
    broker.faults.on("ListGroups").once().drop()
    assert await brokers.ask(1, ListGroupsRequest(), "groups") is None
    assert await brokers.ask(1, ListGroupsRequest(), "groups") is not None
    assert names(brokers) == ["question-unanswered"]
    assert brokers.findings[0].text.startswith(
        "broker 1 did not answer ListGroups within 0.3 s, so its groups are unknown"
    )


@pytest.mark.parametrize("what", ["garbage", "length", "correlation_id"])
async def test_an_answer_that_is_garbage_is_told_and_the_next_question_is_asked(
    broker: Broker, brokers: Brokers, what: str
) -> None:
    broker.faults.on("ListGroups").once().corrupt(what)  # type: ignore[arg-type]
    assert await brokers.ask(1, ListGroupsRequest(), "groups") is None
    assert await brokers.ask(1, ListGroupsRequest(), "groups") is not None
    assert names(brokers) == ["question-unanswered"]


async def test_a_broker_that_hangs_again_and_again_is_asked_nothing_more(broker: Broker, brokers: Brokers) -> None:
    rule = broker.faults.on("ListGroups").drop()
    for _ in range(PATIENCE + 3):
        await brokers.ask(1, ListGroupsRequest(), "groups")
    rule.assert_hit(times=PATIENCE)
    assert brokers.findings[-1].text == "broker 1 was asked nothing more"


async def test_a_request_that_the_release_does_not_serve_is_no_fault(brokers: Brokers) -> None:
    (await brokers.connected(brokers.routes[1])).versions.pop(ListTransactionsRequest.api_key)
    assert await brokers.ask(1, ListTransactionsRequest(), "transactions") is None
    assert names(brokers) == ["question-not-served"]
    assert brokers.findings[0].level == "ok"


async def test_an_answer_that_access_rules_refuse_is_no_fault(brokers: Brokers) -> None:
    brokers.refused(GroupAuthorizationFailed(), "members", "group 'billing'")
    assert names(brokers) == ["not-allowed-to-see"]
    assert brokers.findings[0].text == "not allowed to see members of group 'billing' (GROUP_AUTHORIZATION_FAILED)"
    assert brokers.findings[0].level == "ok"


async def test_refusals_alike_are_told_together(brokers: Brokers) -> None:
    for number in range(5):
        brokers.refused(GroupAuthorizationFailed(), "members", f"group {number}")
    (found,) = brokers.findings
    assert "members of group 0, group 1, group 2 and 2 more" in found.text


async def test_another_error_in_an_answer_is_told_with_its_name(brokers: Brokers) -> None:
    brokers.refused(NotCoordinator("moved"), "members", "group 'billing'")
    assert names(brokers) == ["question-unanswered"]
    assert "NOT_COORDINATOR" in brokers.findings[0].text


async def test_a_broker_without_a_way_to_it_is_not_asked(brokers: Brokers) -> None:
    assert await brokers.ask(2, ListGroupsRequest(), "groups") is None
    assert not brokers.findings
