"""A broker that runs elsewhere: the methods of `Broker` by Kafka's protocol. The one of these tests is kmini's own.

It covers remote/remote_topic.py, remote/remote_group.py, remote/remote_operations.py,
remote/remote_records.py and remote/remote_transactions.py, too.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini import Broker, KafkaError, NotInTime, SeedError, Topic, Transactions
from kmini.client import Client, ConfigResource
from kmini.pipeline.archives.archive_files import Row
from kmini.remote.needs_kmini import NeedsKmini
from kmini.remote.remote_broker import RemoteBroker
from kmini.remote.remote_group import RemoteGroupOperations
from kmini.remote.remote_operations import RemoteOperations
from kmini.remote.remote_topic import RemoteTopicOperations
from kmini.remote.remote_transactions import RemoteTransactionOperations
from kmini.testkit.embedded import BrokerOperations
from kmini.testkit.group_handle import Group, GroupOperations
from kmini.testkit.handle import method
from kmini.testkit.topic_handle import TopicOperations
from kmini.testkit.transaction_handle import TransactionOperations
from support.archives import write_archive
from support.small_client import SmallClient


@pytest.fixture(scope="module")
def kmini() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def remote(kmini: Broker) -> Iterator[RemoteBroker]:
    with RemoteBroker(kmini.bootstrap_servers, prefix="run-") as broker:
        yield broker


TABLES = [
    (BrokerOperations, RemoteOperations),
    (TopicOperations, RemoteTopicOperations),
    (GroupOperations, RemoteGroupOperations),
    (TransactionOperations, RemoteTransactionOperations),
]


def methods(handle: type) -> set[str]:
    """The methods of a handle that are those of a table."""
    return {name for cls in handle.__mro__ for name, found in vars(cls).items() if isinstance(found, method)}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (name, kinds)
        for kinds, handle in zip(TABLES, (Broker, Topic, Group, Transactions), strict=True)
        for name in sorted(methods(handle))
        if hasattr(kinds[1], name)
    ],
)
def test_a_method_is_called_as_that_of_a_broker(name: str, kinds: tuple[type, ...]) -> None:
    parameters = [
        [(one.name, one.kind, one.default) for one in inspect.signature(getattr(kind, name)).parameters.values()]
        for kind in kinds
    ]
    assert parameters[0] == parameters[1]


def test_a_method_that_a_broker_has_and_the_protocol_has_not_is_refused_when_it_is_called(remote: RemoteBroker) -> None:
    refused = {name for name in methods(Broker) if not hasattr(RemoteOperations, name)}
    assert refused == {
        *("advance_clock", "advertise", "apply_retention", "brokers", "clients", "compact", "crash", "disconnect"),
        *("metrics_text", "pause", "reconnect", "restore", "snapshot"),
    }
    for name in (*refused, "stop", "registry_url", "clock", "faults", "requests"):
        with pytest.raises(NeedsKmini, match=f"^needs kmini: {name}$"):
            getattr(remote, name)()
    with pytest.raises(NeedsKmini, match=r"^needs kmini: clock\.advance$"):
        remote.clock.advance("7d")
    with pytest.raises(NeedsKmini, match='needs kmini: records with isolation="all"'):
        remote.records("orders", isolation="all")
    with pytest.raises(NeedsKmini, match=r"^needs kmini: group\.expel$"):
        remote.group("billing").expel("billing-1")
    with pytest.raises(NeedsKmini, match=r"^needs kmini: topic\.compact$"):
        remote.topic("orders").compact()
    with pytest.raises(AttributeError, match="no attribute 'clocks'"):
        remote.clocks.advance("7d")
    with pytest.raises(AttributeError, match="no attribute 'shrink'"):
        remote.topic("orders").shrink()


async def test_the_awaitable_methods_are_refused_too(remote: RemoteBroker) -> None:
    with pytest.raises(NeedsKmini, match=r"clock\.advance"):
        await remote.aio.clock.advance("7d")
    with pytest.raises(NeedsKmini, match=r"^needs kmini: topic\.roll$"):
        await remote.aio.topic("orders").roll()
    await remote.aio.create_topic("run-orders")
    assert await remote.aio.topics() == ["run-orders"]
    assert remote.aio.aio.bootstrap_servers == remote.bootstrap_servers
    with pytest.raises(RuntimeError, match=r"await broker\.aio\.wait_for_records"):
        remote.wait_for_records("run-orders", 1)


def test_it_names_the_server(remote: RemoteBroker) -> None:
    assert remote.server == "kmini as Kafka 4.3"


def test_records_are_those_of_the_broker_with_their_states(remote: RemoteBroker, kmini: Broker) -> None:
    from confluent_kafka import Producer

    kmini.create_topic("run-orders", partitions=2)
    assert remote.produce("run-orders", b"one", key=b"1", headers={"source": "web"}, partition=1) == 0
    producer = Producer({"bootstrap.servers": kmini.bootstrap_servers, "transactional.id": "tx"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        producer.produce("run-orders", b"in a transaction", partition=0)
        producer.flush(30)
        if end is not None:
            end(30)
    kmini.wait_for_records("run-orders", 6, isolation="all")
    for isolation in ("committed", "uncommitted"):
        assert remote.records("run-orders", isolation=isolation) == kmini.records("run-orders", isolation=isolation)
    assert [record.state for record in remote.records("run-orders", 0, isolation="uncommitted")] == [
        "committed",
        "aborted",
        "open",
    ]
    assert remote.wait_for_records("run-orders", 2) == kmini.records("run-orders")
    for partition in (0, 1):
        assert remote.offsets("run-orders", partition) == kmini.offsets("run-orders", partition)
    producer.abort_transaction(30)
    assert remote.delete_records("run-orders", 1, partition=1) == 1
    assert remote.records("run-orders", 1) == []


def test_a_topic_is_looked_into_as_on_a_broker(remote: RemoteBroker, kmini: Broker) -> None:
    ours, theirs = remote.topic("run-orders"), kmini.topic("run-orders")
    before = ours.mark()
    placed = ours.produce(b"placed", key=b"42", headers={"source": "web"})
    assert ours.records() == [placed] == theirs.records()
    assert (ours.partitions(), ours.offsets()) == (theirs.partitions(), theirs.offsets())
    mark = ours.mark()
    with ours.expect(count=1, key=b"43") as records:
        theirs.produce(b"placed", key=b"43")
    assert [record.key for record in records] == [b"43"] == [record.key for record in ours.records(since=mark)]
    assert len(ours.records(since=before)) == len(ours.wait_for(2)) == 2
    assert ours.wait_for(lambda record: record.key == b"43") == records == ours.records(since=1)
    with ours.expect(count=0, within_ms=0):
        pass
    with pytest.raises(AssertionError, match=r"holds 0 of 1 record with key b'44' after 0 ms: .*; 2 others"):
        ours.wait_for(1, key=b"44", timeout_ms=0)
    with pytest.raises(AssertionError, match="there is no topic run-ordres; there are: run-orders"):
        remote.topic("run-ordres").wait_for(1, timeout_ms=0)
    with pytest.raises(ValueError, match="since is a mark of run-orders, and this is run-other"):
        remote.topic("run-other").records(since=mark)
    assert ours.delete_records() == {0: 2}
    assert ours.records() == []


async def test_a_topic_is_looked_into_asynchronously(remote: RemoteBroker) -> None:
    topic = remote.aio.topic("run-orders")
    async with topic.expect(count=1) as records:
        await topic.produce(b"placed")
    assert [record.text() for record in records] == ["placed"]


def test_a_group_is_looked_into_as_on_a_broker(remote: RemoteBroker, kmini: Broker) -> None:
    from kafka import KafkaConsumer

    ours, theirs = remote.group("run-billing"), kmini.group("run-billing")
    topic = remote.topic("run-orders")
    for _ in range(3):
        topic.produce(b"placed")
    with pytest.raises(KafkaError, match="run-billing"):
        ours.describe()
    assert ours.stable(members=0).members == ()
    ours.commit({("run-orders", 0): 1})
    assert ours.offsets() == theirs.offsets() == {("run-orders", 0): 1}
    assert ours.lag() == theirs.lag() == {("run-orders", 0): 2}
    second_ms = kmini.records("run-orders")[1].timestamp
    for position in ("earliest", "latest", second_ms, second_ms + 10**9):
        reset = ours.reset_offsets(position)
        assert reset == ours.offsets() == theirs.reset_offsets(position, "run-orders"), position
    ours.commit({("run-orders", 0): 1})
    with pytest.raises(KafkaError, match="2 records of run-orders left to commit; group run-billing is Empty"):
        ours.caught_up("run-orders", timeout_ms=0)
    with pytest.raises(KafkaError, match="expected: Stable, 1 member"):
        ours.stable(members=1, timeout_ms=0)
    consumer = KafkaConsumer("run-orders", bootstrap_servers=kmini.bootstrap_servers, group_id="run-billing")
    try:
        assert len(next(iter(consumer.poll(10_000).values()))) == 2
        found, known = ours.stable(members=1), theirs.describe()
        assert found._replace(generation=0) == known._replace(generation=0)
        with pytest.raises(KafkaError, match="members commit themselves"):
            ours.commit({("run-orders", 0): 1})
        consumer.commit()
        ours.caught_up("run-orders")
    finally:
        consumer.close()
    ours.stable(members=0)


def test_a_consumer_group_is_looked_into_as_on_a_broker(remote: RemoteBroker, kmini: Broker) -> None:
    ours, theirs = remote.group("run-billing"), kmini.group("run-billing")
    remote.create_topic("run-orders", 2)
    with SmallClient(kmini.bootstrap_servers, "run-1") as first, SmallClient(kmini.bootstrap_servers, "run-2") as other:
        first.beat("run-billing", "run-orders")
        found, known = ours.stable(members=1), theirs.describe()
        assert (found.kind, found.generation, found.assignment_epoch) == ("consumer", 2, 2)
        assert found == known._replace(members=tuple(one._replace(state=None) for one in known.members))
        other.beat("run-billing", subscribed_topic_regex="run-o.*")
        with pytest.raises(NotInTime, match=r"subscribed to the expression run-o[.][*], has nothing"):
            ours.stable(members=2, timeout_ms=0)
        first.beat("run-billing", leaves=True)
        other.beat("run-billing", leaves=True)
    ours.stable(members=0)


@pytest.fixture
def producer(kmini: Broker) -> Iterator[Callable[[str], Any]]:
    """A maker of transactional producers."""
    from confluent_kafka import Producer

    def make(transactional_id: str) -> Any:
        made = Producer({"bootstrap.servers": kmini.bootstrap_servers, "transactional.id": transactional_id})
        made.init_transactions(30)
        return made

    yield make
    kmini.reset()


def test_transactions_are_looked_into_as_on_a_broker(
    remote: RemoteBroker, kmini: Broker, producer: Callable[[str], Any]
) -> None:
    for topic in ("run-orders", "others"):
        kmini.create_topic(topic)
    assert remote.transactions.open() == []
    producers = {name: producer(name) for name in ("run-billing", "billing", "other")}
    topics = {"run-billing": "others", "billing": "run-orders", "other": "others"}
    for name, one in producers.items():
        one.begin_transaction()
        one.produce(topics[name], b"placed")
        one.flush(30)
    found = remote.transactions.open()
    assert {one.transactional_id for one in found} == {"run-billing", "billing"}, "by its id, and by what it writes to"
    theirs = {one.transactional_id: one for one in kmini.transactions.open()}
    for one in found:
        assert one._replace(age_ms=0) == theirs[one.transactional_id]._replace(age_ms=0)
        assert 0 <= one.age_ms < 60_000
    with pytest.raises(
        NotInTime, match=r"run-billing is Ongoing for \d+ of \d+ ms, producer .* in others-0 \(after 0 ms"
    ):
        remote.transactions.wait_ended("run-billing", timeout_ms=0)
    with pytest.raises(AssertionError, match=r"billing is Ongoing.*; .*billing is Ongoing"):
        remote.transactions.wait_ended(timeout_ms=0)
    with pytest.raises(NotInTime, match="there is no transactional id bill; there are: billing, other, run-billing"):
        remote.transactions.wait_ended("bill", timeout_ms=0)
    producers["billing"].commit_transaction(30)
    remote.transactions.wait_ended("billing")
    assert [record.value for record in remote.records("run-orders")] == [b"placed"]
    remote.transactions.abort("run-billing")
    remote.transactions.wait_ended()
    assert [record.state for record in remote.records("others", isolation="uncommitted")] == ["aborted", "open"]
    with pytest.raises(
        KafkaError, match="the last transaction of billing is CompleteCommit: there is nothing to abort"
    ):
        remote.transactions.abort("billing")
    with pytest.raises(KafkaError, match="there is no transactional id bill; there are: billing, other, run-billing"):
        remote.transactions.abort("bill")
    with pytest.raises(Exception, match=r"fenced|newer"):
        producers["run-billing"].commit_transaction(30)


async def test_transactions_are_looked_into_asynchronously(remote: RemoteBroker) -> None:
    await remote.aio.transactions.wait_ended()
    assert await remote.aio.transactions.open() == []


def test_groups_are_those_with_the_prefix_or_all_without_one(remote: RemoteBroker, kmini: Broker) -> None:
    kmini.create_topic("others")
    try:
        for group in ("run-billing", "billing"):
            kmini.group(group).commit({("others", 0): 0})
        assert remote.groups() == ["run-billing"]
        with RemoteBroker(kmini.bootstrap_servers) as of_all:
            assert of_all.groups() == kmini.groups() == ["billing", "run-billing"]
        with pytest.raises(KafkaError, match="there is no group run-bill; there are: billing, run-billing"):
            remote.group("run-bill").describe()
        with pytest.raises(
            NotInTime, match=r"there is no group run-bill; there are: .* \(after 0 ms; expected: Stable"
        ):
            remote.group("run-bill").stable(timeout_ms=0)
    finally:
        kmini.reset()


def test_a_share_group_is_told_but_for_its_records_in_flight(
    remote: RemoteBroker, kmini: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteOperations, "reset", lambda operations: asyncio.sleep(0))
    remote.create_topic("run-orders")
    group = remote.group("run-workers")
    with SmallClient(kmini.bootstrap_servers, "worker") as worker:
        worker.share("run-workers", "run-orders")
        worker.acquire("run-workers")  # the group begins at the end
        for _ in range(2):
            remote.produce("run-orders", b"placed")
        assert worker.acquire("run-workers") == [(0, 1, 1)]
        assert (group.describe().share_partitions[0].start_offset, group.lag()) == (None, {})  # nothing is stored yet
        worker.acquire("run-workers", (0, 0, 1))
        described = group.stable(members=1)
        assert (described.kind, described.members[0].assignment) == ("share", (("run-orders", 0),))
        assert described.share_partitions == ((("run-orders", 0), 0, 1, None),)
        assert (group.lag(), group.offsets()) == ({("run-orders", 0): 1}, {})
        with pytest.raises(NotInTime, match="1 record of run-orders left to commit; group run-workers is Stable"):
            group.caught_up("run-orders", timeout_ms=0)
        worker.acquire("run-workers", (1, 1, 1))
        group.caught_up("run-orders")
    kmini.reset()


def test_a_missing_record_is_told_with_what_hides_it(remote: RemoteBroker, producer: Callable[[str], Any]) -> None:
    one = producer("run-billing")
    one.begin_transaction()
    remote.create_topic("run-orders")
    one.produce("run-orders", b"placed", key=b"42")
    one.flush(30)
    remote.produce("run-orders", b"late", key=b"43")
    with pytest.raises(
        AssertionError, match=r"holds 0 of 1 record with key b'42' after 0 ms: \[\]; 1 more in an open tr"
    ):
        remote.topic("run-orders").wait_for(1, key=b"42", timeout_ms=0)
    with pytest.raises(AssertionError, match=r"run-orders holds 0 of 1 record after 0 ms: \[\]; 2 more in an open"):
        remote.wait_for_records("run-orders", 1, timeout_ms=0)
    one.abort_transaction(30)


def test_lines_and_archives_are_loaded_as_on_a_broker(remote: RemoteBroker, kmini: Broker, tmp_path: Path) -> None:
    lines = tmp_path / "seed.jsonl"
    lines.write_text(
        '{"topic": "run-orders", "key": "42", "value": {"state": "placed"}, "timestamp": 1700000000000, '
        '"headers": {"by": "me"}}\n{"topic": "run-made", "value": null, "partition": 0}'
    )
    rows = [[Row(number, 1_000 + number, 0, b"k", b"v%d" % number, [("h", None)]) for number in range(50)], []]
    write_archive(tmp_path / "backup", "run-kept", rows, {"retention.ms": "-1", "min.insync.replicas": "2"})
    remote.create_topic("run-orders", partitions=3)
    assert remote.load(lines) == {"run-orders": 1, "run-made": 1}
    assert remote.load(tmp_path / "backup") == {"run-kept": 50}
    assert remote.load(lines, topic="run-made") == {"run-made": 2}
    found = {topic: remote.records(topic) for topic in ("run-orders", "run-made", "run-kept")}
    remote.reset()
    kmini.create_topic("run-orders", partitions=3)
    kmini.load(lines)
    kmini.load(tmp_path / "backup")
    kmini.load(lines, topic="run-made")
    assert found["run-orders"] == kmini.records("run-orders")
    assert found["run-kept"] == kmini.records("run-kept")
    values = [record.value for record in found["run-made"]]
    assert values == [record.value for record in kmini.records("run-made")]
    with pytest.raises(SeedError, match="there is a topic run-kept already"):
        remote.load(tmp_path / "backup")
    lines.write_text('{"topic": "run-orders", "value": "x", "partition": 7}')
    with pytest.raises(KafkaError, match="there is no partition 7 of run-orders; it has 0 to 2"):
        remote.load(lines)
    with pytest.raises(NeedsKmini, match="load of a log directory"):
        remote.load(Path(kmini.data_dir))


def test_an_archived_topic_has_its_settings_and_no_others(remote: RemoteBroker, tmp_path: Path) -> None:
    write_archive(tmp_path / "backup", "run-kept", [[]], {"retention.ms": "1000", "min.insync.replicas": "2"})
    remote.load(tmp_path / "backup")
    entries = remote._thread.run(remote._client.describe_configs(ConfigResource.topic("run-kept")))
    assert {one.name: one.value for one in entries if one.source == "dynamic-topic"} == {"retention.ms": "1000"}


def test_errors_say_what_is_there(remote: RemoteBroker) -> None:
    remote.create_topic("run-orders")
    for message, call in {
        "there is no topic run-ordres; there are: run-orders": lambda: remote.records("run-ordres"),
        "there is no topic run-order; there are: run-orders": lambda: remote.delete_topic("run-order"),
        "there is no partition 3 of run-orders; it has 0 only": lambda: remote.records("run-orders", 3),
        "run-orders holds 0 of 1 record after 0 ms": lambda: remote.wait_for_records("run-orders", 1, timeout_ms=0),
        r"there is no topic run-x; .* \(after 0 ms\)": lambda: remote.wait_for_records("run-x", 1, timeout_ms=0),
        "run-orders": lambda: remote.create_topic("run-orders"),
    }.items():
        with pytest.raises(KafkaError, match=message):
            call()
    with pytest.raises(ValueError, match="partition=-1"):
        remote.records("run-orders", -1)


def test_a_reset_deletes_what_is_the_runs_own_and_nothing_else(remote: RemoteBroker, kmini: Broker) -> None:
    async def commit(client: Client) -> None:
        for group in ("run-billing", "billing"):
            await client.commit_offsets(group, {("others", 0): 0})

    async def groups(client: Client) -> list[str]:
        return [group.group_id for group in await client.list_groups()]

    kmini.create_topic("others")
    try:
        kmini.create_topic("run-orders")
        remote.create_topic("users")
        remote.produce("auto", b"created")
        remote._thread.run(commit(remote._client))
        assert remote.topics() == ["auto", "run-orders", "users"]
        remote.reset()
        assert remote.topics() == []
        assert [name for name in kmini.topics() if not name.startswith("__")] == ["others"]
        assert remote._thread.run(groups(remote._client)) == ["billing"]
    finally:
        kmini.delete_topic("others")


def test_closing_deletes_and_ends_the_thread(leaves_nothing: None) -> None:
    with Broker() as kmini:
        with RemoteBroker(kmini.bootstrap_servers, prefix="run-") as remote:
            remote.create_topic("orders")
            assert kmini.topics() == ["orders"]
        assert kmini.topics() == []


def test_an_address_without_a_broker_is_an_error_at_the_start(leaves_nothing: None) -> None:
    with pytest.raises(ValueError, match="no address"):
        RemoteBroker("host:port")
    broker = Broker().start()
    address = broker.bootstrap_servers
    broker.close()
    with pytest.raises(KafkaError, match=address):
        RemoteBroker(address, timeout_ms=200).start()
