"""The fixtures on Apache Kafka: the suite of examples/orders runs there, and skips what needs kmini."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kmini import KafkaError, NotInTime
from kmini.pipeline.archives.archive_files import Row
from kmini.protocol.errors import InvalidTxnState, TransactionalIdNotFound
from kmini.remote.remote_broker import RemoteBroker
from support.archives import write_archive
from support.server_process import ServerProcess
from support.until import until

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "orders"

SKIPPED = {
    "test_a_test_that_expects_the_invoice_of_a_refused_charge_is_told_where_it_is": 'records with isolation="all"',
    "test_an_invoice_is_written_once_although_the_answer_of_the_commit_is_lost": "faults",
    "test_an_order_is_placed_although_the_leader_has_moved": "faults",
    "test_an_order_is_placed_once_although_the_answer_is_lost": "faults",
    "test_an_order_that_is_forgotten_leaves_no_byte_in_the_log": "topic.compact",
    "test_orders_are_billed_once_each_over_a_restart_of_the_broker": "stop",
    "test_orders_are_billed_once_each_when_the_coordinator_of_transactions_dies": "cluster of the test's own",
    "test_orders_are_kept_when_their_leader_dies": "cluster of the test's own",
    "test_orders_go_after_a_week": "clock.advance",
}
"""The tests of the example that need kmini, and what of it."""


def test_the_suite_of_the_example_runs_on_apache_kafka_and_skips_what_needs_kmini(
    apache_kafka_server: ServerProcess, tmp_path: Path
) -> None:
    address = apache_kafka_server.bootstrap_servers
    folder = shutil.copytree(EXAMPLE, tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__"))
    count = sum(len(re.findall(r"^(?:async )?def test_", path.read_text(), re.M)) for path in folder.glob("test_*.py"))
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "--kafka-bootstrap", address],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": "", "COLUMNS": "250"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    told = finished.stdout + finished.stderr
    assert f"{count - len(SKIPPED)} passed, {len(SKIPPED)} skipped" in told, told
    for test, what in SKIPPED.items():
        assert re.search(rf"::{test} SKIPPED \(needs kmini: {re.escape(what)} \({address} is Apache Kafka", told), told
    line = f"kafka: {count} tests on Apache Kafka 4.3, {len(SKIPPED)} skipped "
    assert line + "(clock 1, cluster 2, compact 1, faults 3, records 1, stop 1)" in finished.stdout
    with RemoteBroker(address, prefix="kmini-") as remote:
        assert remote.topics() == [], "the run has deleted its topics"


@pytest.fixture
def remote(apache_kafka_server: ServerProcess, topic_names: Callable[[str], str]) -> Iterator[RemoteBroker]:
    with RemoteBroker(apache_kafka_server.bootstrap_servers, prefix=topic_names("fixtures") + "-") as broker:
        yield broker


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_apache_kafka_is_made_to_rebalance(remote: RemoteBroker, protocol: str) -> None:
    orders, billing = remote.prefix + "orders", remote.prefix + protocol
    remote.create_topic(orders, 2)
    servers = {"bootstrap.servers": remote.bootstrap_servers}
    with contextlib.closing(
        Consumer({**servers, "group.id": billing, "group.protocol": protocol, "auto.offset.reset": "earliest"})
    ) as consumer:
        assigned: list[int] = []
        consumer.subscribe([orders], on_assign=lambda _, partitions: assigned.append(len(partitions)))
        until(lambda: (consumer.poll(0.05), assigned)[1], poll_s=0)
        before = remote.group(billing).stable(members=1)
        remote.group(billing).rebalance()
        if protocol == "classic":
            until(lambda: (consumer.poll(0.05), len(assigned) == 2)[1], poll_s=0)
        after = remote.group(billing).stable(members=1)
    assert [(one.member_id, one.assignment) for one in after.members] == [
        (one.member_id, one.assignment) for one in before.members
    ]
    if protocol == "consumer":
        assert after.generation > before.generation


def test_transactions_of_apache_kafka_are_seen_waited_for_and_aborted(remote: RemoteBroker) -> None:
    orders, billing = remote.prefix + "orders", remote.prefix + "billing"
    remote.create_topic(orders)
    producer = Producer({"bootstrap.servers": remote.bootstrap_servers, "transactional.id": billing})
    with pytest.raises(TransactionalIdNotFound, match=f"there is no transactional id {billing}"):
        remote.transactions.abort(billing)
    producer.init_transactions(60)
    with pytest.raises(InvalidTxnState, match=r"the last transaction of .* is Empty: there is nothing to abort"):
        remote.transactions.abort(billing)
    for end in (producer.commit_transaction, None):
        producer.begin_transaction()
        producer.produce(orders, b"placed")
        producer.flush(60)
        (found,) = remote.transactions.open()
        assert (found.transactional_id, found.state, found.partitions) == (billing, "Ongoing", ((orders, 0),))
        assert 0 <= found.age_ms < found.timeout_ms == 60_000
        with pytest.raises(NotInTime, match=f"{billing} is Ongoing"):
            remote.transactions.wait_ended(timeout_ms=0)
        if end is not None:
            end(60)
        else:
            remote.transactions.abort(billing)
        remote.transactions.wait_ended(billing)
        assert remote.transactions.open() == []
    states = [record.state for record in remote.records(orders, isolation="uncommitted")]
    assert states == ["committed", "aborted"]
    with pytest.raises(Exception, match=r"fenced|newer"):
        producer.commit_transaction(60)


def test_groups_of_apache_kafka_are_told_by_name_and_those_of_both_kinds_described(remote: RemoteBroker) -> None:
    orders, billing, new = (remote.prefix + name for name in ("orders", "billing", "new"))
    remote.create_topic(orders)
    remote.produce(orders, b"placed")
    remote.group(billing).commit({(orders, 0): 0})
    consumer = Consumer(
        {
            "bootstrap.servers": remote.bootstrap_servers,
            "group.id": new,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([orders])
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == b"placed"
        consumer.commit(asynchronous=False)
        assert remote.groups() == [billing, new]
        assert (remote.group(billing).describe().kind, remote.group(billing).describe().generation) == ("classic", -1)
        (member,) = remote.group(new).stable(members=1).members
        assert (remote.group(new).describe().kind, member.assignment) == ("consumer", ((orders, 0),))
        assert remote.group(new).offsets() == {(orders, 0): 1}
        remote.group(new).caught_up(orders)
        with pytest.raises(KafkaError):
            remote.group(new).commit({(orders, 0): 0})
        with pytest.raises(NotInTime, match=f"1 record of {orders} left to commit; group {billing} is Empty"):
            remote.group(billing).caught_up(orders, timeout_ms=0)
        assert remote.group(billing).reset_offsets("latest") == {(orders, 0): 1}
        assert remote.group(billing).reset_offsets("earliest", orders) == {(orders, 0): 0}
    finally:
        consumer.close()


def test_lines_and_archives_are_loaded_into_apache_kafka(remote: RemoteBroker, tmp_path: Path) -> None:
    orders, kept = remote.prefix + "orders", remote.prefix + "kept"
    lines = tmp_path / "seed.jsonl"
    lines.write_text(
        f'{{"topic": "{orders}", "key": "42", "value": {{"state": "placed"}}, "timestamp": 1700000000000}}'
    )
    rows = [[Row(number, 1_000 + number, 0, b"k", b"v%d" % number, [("h", None)]) for number in range(50)], []]
    write_archive(tmp_path / "backup", kept, rows, {"retention.ms": "-1", "min.insync.replicas": "2"})
    remote.create_topic(orders, partitions=2)
    assert remote.load(lines) == {orders: 1}
    assert remote.load(tmp_path / "backup") == {kept: 50}
    (record,) = remote.records(orders)
    assert (record.key, record.value, record.timestamp) == (b"42", b'{"state":"placed"}', 1_700_000_000_000)
    found = remote.records(kept)
    assert [(one.value, one.timestamp, one.headers) for one in found] == [
        (b"v%d" % number, 1_000 + number, (("h", None),)) for number in range(50)
    ]


def test_settings_are_compared_with_those_of_apache_kafka(remote: RemoteBroker) -> None:
    def differences(**settings: str) -> list[str]:
        named = {name.replace("_", "."): text for name, text in settings.items()}
        found: list[str] = remote._thread.run(remote._remote.differences(named))
        return found

    assert differences(log_retention_hours="168", auto_create_topics_enable="TRUE", log_roll_hours="168") == []
    assert differences(log_retention_hours="24", kmini_tombstone_flag_enable="true", log_retention_ms="5") == [
        "kmini.tombstone.flag.enable is unknown, not true",
        "log.retention.hours is 168, not 24",
        "log.retention.ms is unset, not 5",
    ]
