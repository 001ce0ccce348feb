"""`kmini doctor` on Apache Kafka: planted problems, each named; and nothing about a Kafka that is well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from kmini.client import Client, NewTopic, parse_addresses, record
from kmini.doctor.examination import examine
from kmini.doctor.findings import Finding
from support.server_process import ServerProcess, kafka_command
from support.small_client import SmallClient
from support.until import until

ABOUT_THE_CLUSTER = ("reach", "addresses", "server", "settings", "clock")
"""The checks to which what other tests left in the shared Kafka does not matter."""


def diagnosed(server: ServerProcess, timeout_ms: int = 10_000) -> list[Finding]:
    return asyncio.run(examine(parse_addresses(server.bootstrap_servers), timeout_ms=timeout_ms))


def text_of(findings: list[Finding], name: str, about: str = "") -> str:
    """The text of the finding of this name that is about a topic, a group or a transaction."""
    return next(finding.text for finding in findings if finding.name == name and about in finding.text)


@pytest.fixture(scope="module")
def planted(
    apache_kafka_server: ServerProcess, topic_names: Callable[[str], str]
) -> Iterator[tuple[list[Finding], Callable[[str], str]]]:
    """What is found on an Apache Kafka with these problems, and their names by a short one."""
    made: dict[str, str] = {}

    def name(short: str) -> str:
        return made.setdefault(short, topic_names(short))

    bootstrap = apache_kafka_server.bootstrap_servers

    async def plant() -> None:
        async with Client(bootstrap) as client:
            new = NewTopic(partitions=1, replication_factor=1)
            outcomes = await client.create_topics(
                {
                    name("orders"): new,
                    name("zzz-pinned"): new,
                    name("emptied"): new,
                    name("misspelt"): new,
                    "x" + name("misspelt"): new,
                    name("strict"): new._replace(configs={"min.insync.replicas": "2"}),
                    name("short"): new._replace(configs={"retention.ms": "60000"}),
                    name("small"): new._replace(configs={"max.message.bytes": "1000"}),
                    name("stamped"): new._replace(configs={"message.timestamp.type": "LogAppendTime"}),
                }
            )
            assert not any(outcomes.values()), outcomes
            for short in ("orders", "emptied", "misspelt"):
                await client.produce(name(short), 0, [record(b"a"), record(b"b"), record(b"c")])
            orders = (name("orders"), 0)
            await client.delete_records_before({orders: 2, (name("emptied"), 0): 3}, timeout_ms=5_000)
            for short, offset in (("lagging", 2), ("ended", 3), ("late", 1), ("beyond", 9)):
                errors = await client.commit_offsets(name(short), {orders: offset})
                assert not any(errors.values()), errors

    asyncio.run(plant())
    with (
        SmallClient(bootstrap, "reader") as reader,
        SmallClient(bootstrap, "one") as one,
        SmallClient(bootstrap, "two") as two,
        SmallClient(bootstrap, "stays") as stays,
        SmallClient(bootstrap, "joins") as joins,
        SmallClient(bootstrap, "payments") as payments,
    ):
        reader.subscribe(name("deaf"), name("orders") + "-gone")
        one.subscribe(name("crowded"), name("orders"))
        two.join(name("crowded"), name("orders"), waits=False)
        until(lambda: is_rebalancing(bootstrap, name("crowded")))
        one.join(name("crowded"), name("orders"))
        two.receive_join(1)
        one.sync(name("crowded"), {one.member_id: [(name("orders"), 0)], two.member_id: []})
        two.sync(name("crowded"), {})
        stays.subscribe(name("turning"), name("orders"))
        joins.join(name("turning"), name("orders"), waits=False)
        until(lambda: is_rebalancing(bootstrap, name("turning")))
        payments.begin(name("tx"), name("zzz-pinned"))
        assert payments.produce(name("zzz-pinned")) == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kmini.doctor.transactions.LONG_MS", 0)
            found = diagnosed(apache_kafka_server, 2_000)
        payments.end(commits=False)
        yield found, name


def is_rebalancing(bootstrap: str, group: str) -> bool:
    async def ask() -> bool:
        async with Client(bootstrap) as client:
            return (await client.describe_group(group)).state == "PreparingRebalance"

    return asyncio.run(ask())


Planted = tuple[list[Finding], Callable[[str], str]]


def test_a_healthy_kafka_has_neither_failures_nor_warnings(apache_kafka_server: ServerProcess) -> None:
    found = diagnosed(apache_kafka_server)
    found = [one for one in found if one.check in ABOUT_THE_CLUSTER and " of topic" not in one.text]
    assert [one for one in found if one.level != "ok"] == []
    assert "Apache Kafka 4.3 by what it serves" in text_of(found, "reached")
    assert "metadata.version" in text_of(found, "features")
    assert "the address that you asked" in text_of(found, "address-works")
    assert text_of(found, "only-this-machine")
    assert text_of(found, "topics-are-auto-created")
    assert text_of(found, "clock-unknown")


def test_a_replication_factor_below_min_insync_replicas_is_named(planted: Planted) -> None:
    found, name = planted
    assert f"{name('strict')}-0 (replication factor 1, 2 wanted)" in text_of(found, "too-few-replicas")


def test_surprising_settings_of_topics_are_named(planted: Planted) -> None:
    found, name = planted
    assert "retention.ms=60000 (1m)" in text_of(found, "short-retention", name("short"))
    assert "MESSAGE_TOO_LARGE" in text_of(found, "small-messages", name("small"))
    assert "replaces the timestamps" in text_of(found, "append-time", name("stamped"))


def test_a_misspelt_topic_and_an_emptied_one_are_named(planted: Planted) -> None:
    found, name = planted
    assert text_of(found, "misspelt-topic", f"nothing was ever written to 'x{name('misspelt')}'")
    assert text_of(found, "topic-emptied", repr(name("emptied")))


def test_positions_of_groups_without_members_are_named(planted: Planted) -> None:
    found, name = planted
    assert "1 record of " in text_of(found, "group-without-members", f"group {name('lagging')} ")
    assert "which is the end" in text_of(found, "group-at-the-end", f"group {name('ended')} ")
    assert "the log begins at 2" in text_of(found, "committed-offset-deleted", f"group {name('late')} ")
    assert "the log ends at 3" in text_of(found, "committed-offset-beyond-end", f"group {name('beyond')} ")


def test_groups_whose_members_read_nothing_are_named(planted: Planted) -> None:
    found, name = planted
    assert "'reader'" in text_of(found, "group-on-missing-topic", f"group {name('deaf')} ")
    assert "'two' has no partition" in text_of(found, "group-has-idle-members", f"group {name('crowded')} ")
    assert "PreparingRebalance" in text_of(found, "group-rebalancing", f"group {name('turning')} ")


def test_an_open_transaction_is_named_with_what_it_pins(planted: Planted) -> None:
    found, name = planted
    text = text_of(found, "transaction-left-open", repr(name("tx")))
    assert f"It pins {name('zzz-pinned')}-0 at 0." in text


@pytest.fixture(scope="module")
def misconfigured(need_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Finding]]:
    """What is found on an Apache Kafka of its own with settings that its clients do not survive."""
    directory = tmp_path_factory.mktemp("misconfigured")
    settings = {
        "advertised.listeners": "PLAINTEXT://no-such-host.invalid:9092",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "min.insync.replicas": "2",
        "message.max.bytes": "1000",
        "log.message.timestamp.type": "LogAppendTime",
        "compression.type": "gzip",
        "group.max.session.timeout.ms": "10000",
        "unclean.leader.election.enable": "true",
        "log.retention.ms": "60000",
        "group.initial.rebalance.delay.ms": "3000",
    }
    process = ServerProcess(kafka_command(directory / "data", settings), directory / "server.log")
    try:
        yield diagnosed(process)
    finally:
        process.stop()


def test_an_advertised_host_that_does_not_resolve_is_named_and_the_rest_is_examined(
    misconfigured: list[Finding],
) -> None:
    text = text_of(misconfigured, "host-does-not-resolve")
    assert "broker 1 at no-such-host.invalid:9092: 'no-such-host.invalid' has no address here" in text
    assert "Apache Kafka 4.3" in text_of(misconfigured, "reached")
    assert [one.text for one in misconfigured if one.name == "question-unanswered"] == []


def test_internal_topics_that_one_broker_cannot_have_are_named(misconfigured: list[Finding]) -> None:
    assert "offsets.topic.replication.factor=3, and 1 broker is live" in text_of(misconfigured, "no-offsets-topic")
    assert "no transactional producer" in text_of(misconfigured, "no-transactions-topic")


def test_surprising_settings_of_the_broker_are_named(misconfigured: list[Finding]) -> None:
    assert "min.insync.replicas=2 of broker 1" in text_of(misconfigured, "min-isr-above-replication")
    assert "message.max.bytes=1000" in text_of(misconfigured, "small-messages")
    assert "LogAppendTime" in text_of(misconfigured, "append-time")
    assert "compression.type=gzip" in text_of(misconfigured, "recompression")
    assert "10000 (10s)" in text_of(misconfigured, "short-sessions")
    assert text_of(misconfigured, "unclean-elections")
    assert "log.retention.ms=60000 (1m)" in text_of(misconfigured, "short-retention")
    assert "3000 (3s)" in text_of(misconfigured, "first-rebalance-waits")
