"""KIP-107, "API Authorization": which users may delete records, over real sockets, with passwords.

The matrix of all requests and rights is compared with Apache Kafka in tests/oracle/test_acls.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kmini import Broker
from kmini.client import Client, Sasl
from kmini.client.delete_records import DeleteRecordsResult
from kmini.protocol.errors import TopicAuthorizationFailed
from kmini.protocol.messages.create_acls import CreateAclsRequest
from kmini.protocol.messages.delete_topics import DeleteTopicsRequest

TOPIC, LITERAL, ALLOW, DENY = 2, 3, 3, 2
READ, WRITE, DELETE, ALTER = 3, 4, 6, 7

CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' user_admin="a" user_cleaner="c" user_reader="r";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """`orders` with ten records, and the rules of the users `cleaner` and `reader`."""
    with Broker(config=CONFIG, topics={"orders": 1, "invoices": 1}) as broker:
        for topic in ("orders", "invoices"):
            for _ in range(10):
                broker.produce(topic, b"v")
        yield broker


def allow(broker: Broker, user: str, operation: int, *, permission: int = ALLOW, topic: str = "orders") -> None:
    rule = CreateAclsRequest.Creation(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=permission,
    )

    async def create() -> None:
        async with client(broker, "admin") as admin:
            response = await admin.send(None, CreateAclsRequest(creations=[rule]))
            assert [result.error_code for result in response.results] == [0]

    asyncio.run(create())


def client(broker: Broker, user: str) -> Client:
    return Client(broker.bootstrap_servers, sasl=Sasl("PLAIN", user, user[0]))


def delete(broker: Broker, user: str, *topics: str) -> dict[str, DeleteRecordsResult]:
    async def ask() -> dict[str, DeleteRecordsResult]:
        async with client(broker, user) as ours:
            results = await ours.delete_records_before({(topic, 0): 4 for topic in topics}, 5_000)
            return {topic: result for (topic, _), result in results.items()}

    return asyncio.run(ask())


def refused(result: DeleteRecordsResult) -> bool:
    return result.low_watermark == -1 and isinstance(result.error, TopicAuthorizationFailed)


def test_only_authorized_users_may_delete_records(broker: Broker) -> None:
    allow(broker, "reader", READ)
    assert refused(delete(broker, "reader", "orders")["orders"])
    assert broker.offsets("orders").log_start_offset == 0


def test_its_operation_type_is_delete_and_its_resource_type_is_topic(broker: Broker) -> None:
    allow(broker, "cleaner", DELETE)
    assert delete(broker, "cleaner", "orders")["orders"] == DeleteRecordsResult(4, None)
    assert broker.offsets("orders").log_start_offset == 4


@pytest.mark.parametrize("operation", [READ, WRITE, ALTER])
def test_no_other_operation_allows_it(broker: Broker, operation: int) -> None:
    allow(broker, "cleaner", operation)
    assert refused(delete(broker, "cleaner", "orders")["orders"])


def test_a_rule_that_denies_is_stronger(broker: Broker) -> None:
    allow(broker, "cleaner", DELETE)
    allow(broker, "cleaner", DELETE, permission=DENY)
    assert refused(delete(broker, "cleaner", "orders")["orders"])


def test_each_partition_of_a_request_is_judged_by_its_topic(broker: Broker) -> None:
    allow(broker, "cleaner", DELETE)
    results = delete(broker, "cleaner", "orders", "invoices")
    assert results["orders"].low_watermark == 4
    assert refused(results["invoices"])
    assert broker.offsets("invoices").log_start_offset == 0


def test_it_has_the_same_authorization_setting_as_delete_topic(broker: Broker) -> None:
    async def delete_topic(user: str) -> int:
        async with client(broker, user) as ours:
            state = DeleteTopicsRequest.Topic(name="orders")
            response = await ours.send(None, DeleteTopicsRequest(topics=[state], timeout_ms=5_000))
            return int(response.responses[0].error_code)

    allow(broker, "reader", READ)
    allow(broker, "cleaner", DELETE)
    assert asyncio.run(delete_topic("reader")) == TopicAuthorizationFailed.code
    assert refused(delete(broker, "reader", "orders")["orders"])
    assert delete(broker, "cleaner", "orders")["orders"].error is None
    assert asyncio.run(delete_topic("cleaner")) == 0


def test_a_super_user_needs_no_rule(broker: Broker) -> None:
    assert delete(broker, "admin", "orders")["orders"] == DeleteRecordsResult(4, None)
