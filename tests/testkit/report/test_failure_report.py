"""The failure report is bounded, escaped, without secrets, and there for clusters and without a journal."""

from __future__ import annotations

import pytest

from kmini import Broker, Cluster
from kmini.protocol import messages as m
from kmini.testkit.report.failure_report import MOST_LINES, MOST_WIDTH
from support.small_client import SmallClient

SECRET = "hush-hush"


def test_a_report_of_much_is_short() -> None:
    topics = {f"topic-{'x' * 100}-{number}": 50 for number in range(30)}
    with Broker(journal=True, topics=topics) as broker:
        for number in range(20):
            broker.produce(f"topic-{'x' * 100}-{number}", bytes(5_000))
        for number in range(12):
            with SmallClient(broker.bootstrap_servers, f"client-{number}" * 10) as client:
                for name in range(20):
                    client.metadata(f"no-such-topic-{name}", creates=False)
        report = broker.report()
    lines = report.splitlines()
    assert 25 < len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_WIDTH
    assert "and 25 more" in report
    assert lines[-1] == "clock   not moved; requests: 240, all kept"


def test_what_a_client_sends_is_escaped() -> None:
    with Broker(journal=True) as broker, SmallClient(broker.bootstrap_servers, "evil\n\x1b[31mclient") as client:
        client.metadata("topic\r\nLIKELY", creates=False)
        report = broker.report()
    assert "\x1b" not in report
    assert "\r" not in report
    assert r"evil\x0a\x1b[31mclient" in report
    assert report.count("\nLIKELY") == 0


def test_equal_requests_that_follow_each_other_are_one_line() -> None:
    with Broker(journal=True, topics=["orders"]) as broker, SmallClient(broker.bootstrap_servers, "app") as client:
        for _ in range(7):
            client.metadata("orders")
        assert client.produce("orders") == 0
        told = [line.split(maxsplit=1)[1] for line in broker.report().splitlines() if line.startswith("        +")]
    assert told == ["Metadata v9 app orders ok  x7", "Produce v9 app orders-0:1 ok"]


def test_no_secret_is_in_a_report() -> None:
    Resource = m.IncrementalAlterConfigsRequest.Resource
    changed = Resource.Config(name="ssl.key.password", config_operation=0, value=SECRET)
    request = m.IncrementalAlterConfigsRequest(
        resources=[Resource(resource_type=4, resource_name="1", configs=[changed])]
    )
    with Broker(journal=True) as broker, SmallClient(broker.bootstrap_servers, "admin") as client:
        client.ask(request)
        client.ask(m.SaslHandshakeRequest(mechanism=SECRET))
        report = broker.report()
    assert "IncrementalAlterConfigs" in report
    assert SECRET not in report


def test_a_cluster_has_a_report_with_what_has_no_leader() -> None:
    replicated = {"orders": {"partitions": 2, "replication_factor": 1}}
    with Cluster(brokers=2, topics=replicated, journal=True) as cluster:
        cluster.kill(cluster.leader("orders", 1))
        assert "orders: 2 partitions, 0 records, 1 without a leader" in cluster.report()


def test_without_a_journal_a_report_says_how_to_have_one() -> None:
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", b"placed", key=b"42")
        assert broker.report().splitlines() == [
            "topics  orders: 1 partition, 1 record, p0 start 0, end 1, last p0@0 key=b'42' value=b'placed'",
            "clock   not moved; no requests were written down: start the broker with journal=True",
        ]


def test_what_the_test_waited_for_in_vain_is_said_until_a_reset() -> None:
    with Broker(topics=["orders"], journal=True) as broker:
        for _ in range(2):
            with pytest.raises(AssertionError):
                broker.requests.wait_for("Produce", topic="orders", timeout_ms=1)
        with pytest.raises(AssertionError), broker.topic("orders").expect(1, key=b"42", timeout_ms=1):
            pass
        with broker.topic("orders").expect(0, within_ms=1):
            pass
        lines = broker.report().splitlines()
        start = next(number for number, line in enumerate(lines) if line.startswith("waited"))
        assert lines[start].startswith("waited  requests.wait_for('Produce', topic='orders', timeout_ms=1): no Produce")
        assert any(
            line.startswith("waited  topic('orders').expect(count=1, key=b'42'): orders holds") for line in lines
        )
        assert sum(line.startswith("waited") for line in lines) == 2
        broker.reset()
        assert "waited" not in broker.report()


async def test_what_a_test_awaited_in_vain_is_said_too() -> None:
    async with Broker(topics=["orders"], journal=True) as broker:
        with pytest.raises(AssertionError):
            await broker.topic("orders").wait_for(1, timeout_ms=1)
        with pytest.raises(AssertionError):
            async with broker.topic("orders").expect(2, timeout_ms=1):
                pass
        report = await broker.report()
    assert "waited  topic('orders').wait_for(1, timeout_ms=1): orders holds 0 of 1 record" in report
    assert "waited  topic('orders').expect(count=2): orders holds 0 of 2 records" in report


async def test_a_wait_that_is_refused_on_a_running_loop_is_none() -> None:
    with Broker(topics=["orders"], journal=True) as broker:
        with pytest.raises(RuntimeError, match="would stop the event loop"):
            broker.topic("orders").wait_for(1)
        assert "waited" not in broker.report()


async def test_a_report_can_be_awaited() -> None:
    async with Broker(journal=True) as broker:
        assert broker.bootstrap_servers
        assert (await broker.report()).startswith("LIKELY  no client sent a request to 127.0.0.1:")


def test_a_broker_that_does_not_run_has_none() -> None:
    with pytest.raises(RuntimeError, match="the broker does not run"):
        Broker().report()
