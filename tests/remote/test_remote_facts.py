"""The failure report of a broker that runs elsewhere has what requests tell. The one of these tests is kmini's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kmini import Broker
from kmini.remote import remote_facts
from kmini.remote.remote_broker import RemoteBroker
from kmini.testkit.report.failure_report import MOST_LINES
from support.small_client import SmallClient

UNKNOWN = (
    "unknown requests, connections, members that have gone, topics auto-created: kmini as Kafka 4.3 does not tell them"
)


@pytest.fixture(scope="module")
def kmini() -> Iterator[Broker]:
    with Broker(config={"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}) as broker:
        yield broker


@pytest.fixture
def remote(kmini: Broker) -> Iterator[RemoteBroker]:
    with RemoteBroker(kmini.bootstrap_servers, prefix="run-") as broker:
        yield broker


def test_a_report_has_the_topics_groups_and_transactions_of_the_run_and_names_what_it_lacks(
    kmini: Broker, remote: RemoteBroker
) -> None:
    kmini.create_topic("another-runs")
    remote.create_topic("run-orders", 2)
    remote.produce("run-orders", b"placed", key=b"42")
    remote.produce("run-orders", b"paid", key=b"42")
    remote.group("run-billing").commit({("run-orders", 0): 1})
    with SmallClient(kmini.bootstrap_servers, "service") as service:
        service.begin("run-tx", "run-orders")
        assert service.produce("run-orders") == 0
        likely, _, *lines = remote.report().splitlines()
        assert service.end(commits=False) == 0
    remote.transactions.wait_ended("run-tx")
    assert likely.startswith("LIKELY  transaction 'run-tx' has been open for ")
    assert lines[0] == (
        "topics  run-orders: 2 partitions, 2 records, 1 hidden by open or aborted transactions, p0 start 0, end 3, "
        "last stable 2, last p0@1 key=b'42' value=b'paid'"
    )
    assert lines[1] == "groups  run-billing: Empty, committed run-orders-0: 1 of 3"
    assert lines[2].startswith("txns    run-tx is Ongoing for ")
    assert lines[3:] == [UNKNOWN]
    kmini.delete_topic("another-runs")


def test_what_the_test_waited_for_in_vain_is_in_it_until_a_reset(remote: RemoteBroker, kmini: Broker) -> None:
    kmini.create_topic("invoices")
    with pytest.raises(AssertionError):
        remote.topic("invoices").wait_for(1, timeout_ms=1)
    with pytest.raises(AssertionError):
        remote.group("run-biling").stable(timeout_ms=1)
    in_vain = (
        "waited  group('run-biling').stable(timeout_ms=1): there is no group run-biling; there are none (after 1 ms;"
    )
    assert remote.report().splitlines() == [
        "LIKELY  the test waited for group 'run-biling', which no client ever joined; there are none",
        "waited  topic('invoices').wait_for(1, timeout_ms=1): invoices holds 0 of 1 record after 1 ms: []",
        f"{in_vain} expected:",
        "        Stable, any member)",
        "topics  invoices: 1 partition, 0 records",
        UNKNOWN,
    ]
    remote.reset()
    assert remote.report().splitlines() == [UNKNOWN]
    kmini.delete_topic("invoices")


async def test_a_report_can_be_awaited_and_is_short(remote: RemoteBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_facts, "MOST_READ", 1)
    for number in range(12):
        await remote.aio.create_topic(f"run-{number}")
    await remote.aio.produce("run-0", b"one")
    await remote.aio.produce("run-0", b"two")
    lines = (await remote.aio.report()).splitlines()
    assert len(lines) < MOST_LINES
    assert lines[0] == "topics  run-0: 1 partition, 1 record, p0 start 0, end 2, last p0@1 key=null value=b'two'"
    assert lines[-2:] == ["        and 7 more", UNKNOWN]
