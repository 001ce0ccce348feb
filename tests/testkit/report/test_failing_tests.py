"""Thirty tests of the kind that people write by mistake, each with the report that they get.

The reports are the files in `golden/`, with times, ports and ids made equal. KMINI_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kmini import Broker, Cluster
from kmini.testkit.report.failure_report import MOST_LINES
from support.small_client import SmallClient
from support.until import until

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def broker() -> Iterator[Broker]:
    config = {
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "group.consumer.assignment.interval.ms": 0,
    }
    with Broker(journal=True, config=config) as b:
        yield b


Client = Callable[[str], SmallClient]


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    """Connects clients by their ids."""
    connected: list[SmallClient] = []

    def connect(client_id: str) -> SmallClient:
        connected.append(SmallClient(broker.bootstrap_servers, client_id))
        return connected[-1]

    yield connect
    for one in connected:
        one.close()


def normalized(report: str) -> str:
    """The report without what differs from run to run."""
    report = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", report)
    report = re.sub(r"[+-]\d+\.\d+", "+T", report)
    report = re.sub(r"\b\d+\.\d s\b", "T s", report)
    report = re.sub(r"for \d+ of (\d+) ms", r"for T of \1 ms", report)
    report = re.sub(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-ID", report)
    # How often a client has to ask until a coordinator is there differs.
    report = re.sub(
        r".* (COORDINATOR_LOAD_IN_PROGRESS|COORDINATOR_NOT_AVAILABLE|NOT_COORDINATOR|CONCURRENT_TRANS.*)\b.*\n",
        "",
        report,
    )
    return re.sub(r"requests: \d+", "requests: N", report) + "\n"


def check(name: str, broker: Broker | Cluster, *cause: str) -> None:
    """The first line names the cause, and the whole report is the golden one."""
    report = broker.report()
    likely = re.match(r"LIKELY  (.*(?:\n {8}.*)*)", report)
    assert likely is not None, report
    sentence = re.sub(r"\n +", " ", likely[1])
    for part in cause:
        assert part in sentence, report
    check_golden(name, report)


def check_golden(name: str, report: str) -> None:
    assert len(report.splitlines()) <= MOST_LINES
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("KMINI_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(normalized(report), encoding="utf-8")
    assert normalized(report) == path.read_text(encoding="utf-8")


def test_a_service_that_writes_to_a_topic_of_a_similar_name(broker: Broker, client: Client) -> None:
    broker.create_topic("orders", 3)
    service = client("order-service")
    service.metadata("order")
    assert service.produce("order") == 0
    with pytest.raises(Exception, match="orders"):
        broker.wait_for_records("orders", 1, timeout_ms=1)
    check("wrong_topic", broker, "'order' has 1", "client 'order-service'", "nothing was ever written to 'orders'")


def test_a_consumer_of_a_topic_that_does_not_exist(broker: Broker, client: Client) -> None:
    broker.create_topic("orders-v1")
    billing = client("billing-2")
    for _ in range(5):
        billing.metadata("orders.v1", creates=False)
    billing.join("billing", "orders.v1")
    billing.sync("billing", {billing.member_id: []})
    check("missing_topic", broker, "'billing-2'", "'orders.v1', which does not exist; nearest: 'orders-v1'")


def test_a_consumer_that_begins_at_the_end_behind_the_record(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    assert client("order-service").produce("orders") == 0
    billing = client("billing-1")
    billing.subscribe("billing", "orders")
    assert billing.committed("billing", "orders") == -1
    assert billing.fetch("orders", billing.end_of("orders")) == b""
    check("assigned_after_produce", broker, "'billing-1'", "orders-0", "auto.offset.reset=latest")


def test_a_group_whose_offset_is_at_the_end(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    assert client("order-service").produce("orders") == 0
    first = client("earlier-test")
    first.subscribe("billing", "orders")
    first.commit("billing", "orders", 1)
    first.leave("billing")
    second = client("billing-1")
    second.subscribe("billing", "orders")
    assert second.fetch("orders", second.committed("billing", "orders")) == b""
    check("group_at_the_end", broker, "group billing had committed the end of orders", "'billing-1'")


def test_a_transaction_that_is_never_ended(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    service = client("order-service")
    service.begin("order-tx", "orders")
    assert service.produce("orders") == 0
    assert client("billing-1").fetch("orders", 0, isolation_level=1) == b""
    check("open_transaction", broker, "'order-tx' has been open for", "orders-0", "1 of orders")


def test_a_producer_whose_transaction_another_one_took_over(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    service, other = client("order-service-1"), client("order-service-2")
    service.begin("order-tx", "orders")
    assert service.produce("orders") == 0
    other.begin("order-tx", "orders")
    assert service.end() != 0
    other.end(commits=False)
    until(lambda: not broker.transactions.open())
    check(
        "fenced",
        broker,
        "'order-tx' of client 'order-service-1' was aborted",
        "client 'order-service-2' took its id over",
        "1 of orders",
    )


def test_a_consumer_of_an_earlier_test_that_still_has_the_group(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    client("rdkafka-7").subscribe("billing", "orders")
    client("billing-1").join("billing", "orders", waits=False)
    broker.requests.wait_for("JoinGroup", client_id="billing-1", where=lambda entry: entry.is_in_service)
    check("leftover_member", broker, "group billing waits for 'rdkafka-7'", "'billing-1' gets no partition")


def test_a_consumer_that_does_not_give_up_its_partitions(broker: Broker, client: Client) -> None:
    broker.create_topic("orders", 2)
    client("billing-1").beat("billing", "orders")
    waiting = client("billing-2")
    waiting.beat("billing", "orders")
    check("not_given_up", broker, "group billing is Reconciling: 'billing-2' waits for orders-", "'billing-1'")


def test_two_consumers_of_one_partition(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    one, two = client("billing-1"), client("billing-2")
    one.join("billing", "orders")
    two.join("billing", "orders", waits=False)
    broker.requests.wait_for("JoinGroup", client_id="billing-2", where=lambda entry: entry.is_in_service)
    one.join("billing", "orders")
    two.receive_join(1)
    one.sync("billing", {one.member_id: [("orders", 0)], two.member_id: []})
    two.sync("billing", {})
    check(
        "more_members_than_partitions",
        broker,
        "has 2 members and orders has 1 partition: 'billing-2' has no partition, and fetches nothing",
    )


def test_a_record_that_is_older_than_retention(broker: Broker, client: Client) -> None:
    broker.create_topic("orders", config={"retention.ms": "3600000"})
    assert client("order-service").produce("orders") == 0
    broker.clock.advance("30d")
    broker.apply_retention()
    check("retention", broker, "retention deleted what was written to 'orders'", "moved ahead by 30d")


def test_a_fault_rule_for_another_topic(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    broker.faults.on("Produce", name="lost leader", topic="ordres").error("NOT_LEADER_OR_FOLLOWER")
    assert client("order-service").produce("orders") == 0
    check("rule_never_hit", broker, "fault rule 'lost leader' never acted", "'ordres'")


def test_an_address_that_clients_cannot_reach(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    broker.advertise("kafka", 29092)
    client("order-service").metadata("orders")
    check("advertised_address", broker, "never connected to the advertised address kafka:29092")


def test_a_service_that_was_given_another_broker(broker: Broker) -> None:
    broker.create_topic("orders")
    with pytest.raises(AssertionError, match="orders"):
        broker.topic("orders").wait_for(1, timeout_ms=1)
    check("no_client", broker, "no client sent a request", "check bootstrap.servers")


def test_a_consumer_whose_topic_has_a_misspelled_name(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    billing = client("billing-1")
    billing.metadata("ordres")
    billing.subscribe("billing", "ordres")
    assert client("order-service").produce("orders") == 0
    with pytest.raises(AssertionError, match="1 record of orders left to commit"):
        broker.group("billing").caught_up("orders", timeout_ms=1)
    check("auto_created_topic", broker, "'ordres' is not 'orders'", "client 'billing-1' asked for it")


def test_a_test_that_waits_for_a_topic_of_another_name(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    assert client("order-service").produce("orders") == 0
    with pytest.raises(AssertionError, match="there is no topic order"):
        broker.topic("order.events").wait_for(3, key=b"42", timeout_ms=1)
    check("waited_for_missing_topic", broker, "the test waited for topic 'order.events', which does not exist")


def test_a_test_that_waits_for_a_group_of_another_name(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    client("billing-1").subscribe("billing", "orders")
    with pytest.raises(AssertionError, match="group biling"):
        broker.group("biling").stable(members=1, timeout_ms=1)
    check("waited_for_missing_group", broker, "group 'biling', which no client ever joined; nearest: 'billing'")


def test_a_consumer_that_takes_too_long_for_a_record(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    assert client("order-service").produce("orders") == 0
    billing = client("billing-1")
    billing.subscribe("billing", "orders")
    assert billing.fetch("orders", 0)
    billing.leave("billing", "consumer poll timeout has expired.")
    with pytest.raises(AssertionError, match="1 record of orders left to commit"):
        broker.group("billing").caught_up("orders", timeout_ms=1)
    check("not_polled", broker, "'billing-1' left group billing", "did not poll for max.poll.interval.ms=60000")


def test_a_consumer_that_hangs(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    client("billing-1").subscribe("billing", "orders")
    assert client("order-service").produce("orders") == 0
    broker.clock.advance("31s", liveness=True)
    with pytest.raises(AssertionError, match="expected: Stable, 1 member"):
        broker.group("billing").stable(members=1, timeout_ms=1)
    check("session_ended", broker, "'billing-1' was removed from group billing", "session.timeout.ms=30000")


def test_a_consumer_that_begins_at_the_end_behind_what_the_test_wrote(broker: Broker, client: Client) -> None:
    broker.create_topic("orders", 2)
    broker.topic("orders").produce(b"placed", key=b"42", partition=1)
    billing = client("billing-1")
    billing.subscribe("billing", "orders", 1)
    for number in range(2):
        assert billing.fetch("orders", billing.end_of("orders", number), number) == b""
    with pytest.raises(AssertionError, match="1 record of orders left to commit"):
        broker.group("billing").caught_up("orders", timeout_ms=1)
    check("latest_by_handle", broker, "'billing-1' began at the end of orders-1", "auto.offset.reset=latest")


def test_a_consumer_that_commits_the_end_at_which_it_began(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    assert client("order-service").produce("orders") == 0
    billing = client("billing-1")
    billing.subscribe("billing", "orders")
    end = billing.end_of("orders")
    assert billing.fetch("orders", end) == b""
    billing.commit("billing", "orders", end)
    billing.leave("billing", "the consumer is being closed")
    check("latest_and_auto_commit", broker, "'billing-1' began at the end of orders-0", "auto.offset.reset=latest")


def test_a_consumer_too_many_that_is_closed(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    one, two = client("billing-1"), client("billing-2")
    one.join("billing", "orders")
    two.join("billing", "orders", waits=False)
    broker.requests.wait_for("JoinGroup", client_id="billing-2", where=lambda entry: entry.is_in_service)
    one.join("billing", "orders")
    two.receive_join(1)
    one.sync("billing", {one.member_id: [("orders", 0)], two.member_id: []})
    two.sync("billing", {})
    assert one.fetch("orders", 0) == b""
    two.leave("billing")
    one.leave("billing")
    check("closed_without_partition", broker, "'billing-2' of group billing never had a partition", "2 members")


def test_a_handler_that_dies_of_a_record(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    assert client("order-service").produce("orders", b"{broken") == 0
    billing = client("billing-1")
    billing.subscribe("billing", "orders")
    assert billing.fetch("orders", 0)
    with pytest.raises(AssertionError, match="1 record of orders left to commit"):
        broker.group("billing").caught_up("orders", timeout_ms=1)
    check("handler_died", broker, "'billing-1' of group billing fetched orders-0@0", "never committed", "{broken")


def test_a_record_on_which_a_service_dies_again_and_again(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    service = client("order-service")
    assert service.produce("orders") == service.produce("orders", b"{broken") == 0
    for number in (1, 2, 3):
        billing = client(f"billing-{number}")
        billing.subscribe("billing", "orders")
        if number == 1:
            assert billing.fetch("orders", 0)
            billing.commit("billing", "orders", 1)
        assert billing.fetch("orders", 1)
        billing.leave("billing")
    check(
        "poison", broker, "orders-0@1 for the third time", "nothing beyond offset 1 was committed", "value=b'{broken'"
    )


def test_a_dead_letter_that_does_not_come(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    broker.create_topic("orders.dlq")
    assert client("order-service").produce("orders", b"{broken") == 0
    billing = client("billing-1")
    billing.subscribe("billing", "orders")
    assert billing.fetch("orders", 0)
    with pytest.raises(AssertionError, match="holds 0 of 1 record"):
        broker.topic("orders.dlq").wait_for(1, timeout_ms=1)
    check("no_dead_letter", broker, "fetched orders-0@0", "never committed", "{broken")


def test_topics_of_one_family_are_not_taken_for_each_other(broker: Broker, client: Client) -> None:
    broker.create_topic("shop.orders.created")
    broker.create_topic("shop.orders.cancelled")
    assert client("order-service").produce("shop.orders.created") == 0
    with pytest.raises(AssertionError, match="cancelled"):
        broker.topic("shop.orders.cancelled").wait_for(1, timeout_ms=1)
    check_golden("family_of_topics", broker.report())


def test_a_test_without_clients(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.topic("orders").produce(b"placed", key=b"42")
    check_golden("without_clients", broker.report())


def test_a_service_that_was_given_another_broker_and_creates_its_topic(broker: Broker) -> None:
    with pytest.raises(AssertionError, match="there is no topic"):
        broker.topic("orders").wait_for(1, timeout_ms=1)
    check("no_client_and_no_topic", broker, "no client sent a request", "check bootstrap.servers")


def test_a_wait_that_ends_before_its_rule_acts(broker: Broker, client: Client) -> None:
    broker.create_topic("orders")
    broker.faults.on("Produce", name="lost leader", topic="orders").error("NOT_LEADER_OR_FOLLOWER")
    service = client("order-service")
    service.metadata("orders")
    with pytest.raises(AssertionError, match="orders"):
        broker.topic("orders").wait_for(1, timeout_ms=1)
    ended_s = time.time()
    until(lambda: time.time() > ended_s + 0.01)
    assert service.produce("orders") != 0
    check(
        "acted_too_late",
        broker,
        "topic('orders').wait_for(1, timeout_ms=1) ended",
        "before fault rule 'lost leader' first acted",
    )


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(journal=True, config={"auto.leader.rebalance.enable": "false"}) as cluster:
        yield cluster


def test_a_cluster_whose_leader_is_gone(cluster: Cluster) -> None:
    cluster.create_topic("orders", replication_factor=1)
    leader = cluster.leader("orders")
    with SmallClient(cluster.address_of(leader % 3 + 1), "order-service") as service:
        service.metadata("orders")
        cluster.kill(leader)
        service.metadata("orders")
    check("no_leader", cluster, "no broker leads orders-0", f"broker {leader} was killed")


def test_a_cluster_with_too_few_replicas_in_sync(cluster: Cluster) -> None:
    cluster.create_topic("orders", replication_factor=3, config={"min.insync.replicas": 2})
    cluster.move_leader("orders", to=cluster.replicas("orders")[1])
    leader, others = cluster.leader("orders"), sorted({1, 2, 3} - {cluster.leader("orders")})
    with SmallClient(cluster.address_of(leader), "order-service") as service:
        service.metadata("orders")
        cluster.cut_off(others[1])
        cluster.reconnect(others[1])
        cluster.kill(others[0])
        cluster.stop_broker(others[1])
        assert service.produce("orders") != 0
    check(
        "too_few_in_sync",
        cluster,
        "the Produce of client 'order-service' was refused with NOT_ENOUGH_REPLICAS",
        f"broker {others[0]} was killed",
        f"broker {others[1]} was stopped",
    )


def test_there_are_thirty_of_them() -> None:
    assert len([*GOLDEN.glob("*.txt")]) == 30
