"""`kmini.connect`: the handles of a broker in another process, over its control server.

It goes through control/connected_tables.py and control/control_client.py.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import kmini
from kmini import KafkaError, NotInTime, RecordsMissing, RequestsLost, SeedError
from kmini.broker.journal import request_journal
from kmini.broker.snapshots import SnapshotError
from kmini.control.connected import ConnectedBroker, ConnectedCluster
from kmini.protocol.errors import OffsetOutOfRange, ResourceNotFound, TopicAlreadyExists, UnknownTopicOrPartition
from support.control_api import ControlApi, control_api
from support.own_threads import own_threads, until_no_thread_is_new
from support.small_client import SmallClient


def in_the_background(work: Any) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


# --- records


def test_records_keep_every_byte(broker: ConnectedBroker) -> None:
    orders = broker.topic("orders")
    for key, value in (
        (b"\xff\x00", b"\x80\r\n"),
        (None, None),
        (b"", b""),
        (b'{"base64": "AA=="}', "ä\u2028".encode()),
    ):
        written = orders.produce(value, key=key, headers=[("a\n", b"\xfe"), ("a\n", None)], partition=1)
        assert (written.key, written.value) == (key, value)
        assert orders.records(since=written.offset) == [written]
        assert written.headers == (("a\n", b"\xfe"), ("a\n", None))


def test_a_predicate_chooses_records_in_the_process_of_the_test(broker: ConnectedBroker) -> None:
    orders = broker.topic("orders")
    for value in (b"1", b"2", b"3"):
        orders.produce(value)
    here = threading.get_ident()
    asked: list[int] = []

    def is_even(record: kmini.Record) -> bool:
        asked.append(threading.get_ident())
        return int(record.text()) % 2 == 0

    assert [record.text() for record in orders.records(where=is_even)] == ["2"]
    assert [record.text() for record in orders.wait_for(is_even)] == ["2"]
    assert asked
    assert here not in asked, "a predicate runs on the thread that asks, as it does on an embedded broker"


def test_a_wait_ends_when_the_record_comes_that_a_predicate_takes(broker: ConnectedBroker) -> None:
    orders = broker.topic("orders")

    def write() -> None:
        for value in (b"other", b"another", b"wanted"):
            orders.produce(value)

    writer = in_the_background(write)
    (record,) = orders.wait_for(lambda record: record.value == b"wanted", timeout_ms=20_000)
    writer.join()
    assert record.text() == "wanted"


def test_a_wait_in_vain_says_what_was_there_instead(broker: ConnectedBroker) -> None:
    orders = broker.topic("orders")
    orders.produce(b"placed", key=b"41")
    with pytest.raises(RecordsMissing, match=r"orders holds 0 of 1 record with key b'42' after 10 ms: \[\]; 1 other"):
        orders.wait_for(1, key=b"42", timeout_ms=10)
    with pytest.raises(RecordsMissing, match="orders holds 0 of 1 record that the predicate takes after 10 ms"):
        orders.wait_for(lambda record: False, timeout_ms=10)
    assert "waited  topic('orders').wait_for(" in broker.report()


def test_expect_holds_over_http(broker: ConnectedBroker) -> None:
    with broker.topic("orders").expect(count=1, key=b"42") as records:
        broker.produce("orders", b"placed", key=b"42")
    assert records[0].text() == "placed"
    too_many = broker.topic("orders").expect(count=1)
    too_many.__enter__()
    broker.produce("orders", b"one")
    broker.produce("orders", b"two")
    with pytest.raises(AssertionError, match="2 records came to orders, and 1 should"):
        too_many.__exit__(None, None, None)


# --- errors


def test_an_error_is_of_the_class_that_the_method_raises(broker: ConnectedBroker) -> None:
    with pytest.raises(TopicAlreadyExists):
        broker.create_topic("orders")
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic ordres; there are: orders"):
        broker.records("ordres")
    with pytest.raises(OffsetOutOfRange):
        broker.topic("orders").delete_records(5)
    with pytest.raises(ResourceNotFound):
        broker.disconnect("billing/1")
    with pytest.raises(SnapshotError, match="there is no snapshot evening"):
        broker.restore("evening")
    with pytest.raises(NotInTime):
        broker.group("billing").stable(timeout_ms=10)
    with pytest.raises(ValueError, match="partition=-1"):
        broker.topic("orders").records(-1)
    with pytest.raises(TypeError, match="encode text"):
        broker.produce("orders", "text")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="runs already"):
        broker.start()


def test_names_with_any_letter_are_told_as_they_are(broker: ConnectedBroker) -> None:
    name = 'a/b?c=d#e %2F"\n..'
    rule = broker.faults.on("Produce", name=name, client_id="x/*").once().error("NOT_LEADER_OR_FOLLOWER")
    assert (rule.name, rule.hits) == (name, 0)
    with pytest.raises(KafkaError, match="a/b ä"):
        broker.group("a/b ä").describe()
    rule.remove()
    assert broker.faults.rules() == []


# --- faults


def test_a_rule_acts_and_tells_it_after_its_removal_too(broker: ConnectedBroker) -> None:
    with broker.faults.on("Metadata", client_id="small").times(1).delay(timedelta(milliseconds=1)) as rule:
        with SmallClient(broker.bootstrap_servers, client_id="small") as client:
            client.metadata()
        rule.wait_hit()
        assert (rule.hits, rule.seen) == (1, 1)
    assert rule.hits == 1
    rule.assert_hit(times=1)
    assert rule.to_json()["when"] == {"api": ["Metadata"], "client_id": "small"}


def test_a_rule_that_never_acted_tells_why(broker: ConnectedBroker) -> None:
    rule = broker.faults.on("Produce", topic="orders").once().disconnect()
    with pytest.raises(AssertionError, match="never acted: no request that it is about came"):
        rule.assert_hit()
    with pytest.raises(AssertionError, match="never acted"):
        broker.faults.assert_all_hit()
    assert "never acted" in broker.faults.unhit()[0]


def test_a_held_request_is_seen_and_released(broker: ConnectedBroker) -> None:
    rule = broker.faults.on("Metadata", client_id="small").hold()

    def ask() -> None:
        with SmallClient(broker.bootstrap_servers, client_id="small") as client:
            client.metadata()

    asking = in_the_background(ask)
    rule.arrived()
    assert "Metadata of small" in rule.blocked[0]
    assert rule.release() == 1
    asking.join(20)
    assert not asking.is_alive()


def test_a_rule_with_a_python_function_is_refused(broker: ConnectedBroker) -> None:
    with pytest.raises(ValueError, match="respond and where are for Python only"):
        broker.faults.on("Produce", where=lambda asked: True).once().disconnect()
    with pytest.raises(ValueError, match="respond and where are for Python only"):
        broker.faults.on("Metadata").respond(lambda request, answer: answer)


def test_a_wrong_rule_is_refused_where_it_is_made(broker: ConnectedBroker) -> None:
    with pytest.raises(ValueError, match="did you mean NOT_LEADER_OR_FOLLOWER"):
        broker.faults.on("Produce").error("NOT_LEADER")
    broker.faults.on("Produce", name="one").once().disconnect()
    with pytest.raises(ValueError, match="there is a fault rule 'one' already"):
        broker.faults.on("Produce", name="one").once().disconnect()
    assert [
        rule.name for rule in broker.faults.load([{"name": "one", "when": {"api": ["Fetch"]}, "do": [{"drop": True}]}])
    ] == ["one"]
    assert [rule.to_json()["when"]["api"] for rule in broker.faults.rules()] == [["Fetch"]]


# --- the journal


def test_the_journal_answers_with_and_without_a_function(broker: ConnectedBroker) -> None:
    mark = broker.requests.mark()
    with SmallClient(broker.bootstrap_servers, client_id="small") as client:
        client.metadata()
    (entry,) = broker.requests.wait_for("Metadata", client_id="small", since=mark)
    assert (entry.api, entry.client_id, entry.errors) == ("Metadata", "small", ())
    assert broker.requests.count("Metadata", where=lambda one: one.version == entry.version, since=mark) == 1
    assert broker.requests.all(where=lambda one: False) == []
    assert broker.requests.all(since=entry, client_id="small") == []
    assert broker.requests.wait_for("Metadata", where=lambda one: one == entry) == [entry]
    with pytest.raises(AssertionError, match="expected no Metadata request where="):
        broker.requests.assert_none("Metadata", where=lambda one: one == entry)
    with pytest.raises(NotInTime, match="was expected"):
        broker.requests.wait_for("Produce", where=lambda one: True, timeout_ms=10)
    with pytest.raises(AssertionError, match="no Produce came"):
        broker.requests.assert_some("Produce", since=mark)


def test_a_journal_that_lost_requests_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_journal, "MOST_ENTRIES", 3)
    with control_api(topics={}) as server, kmini.connect(server.url) as broker:
        with SmallClient(broker.bootstrap_servers, client_id="small") as client:
            for _ in range(5):
                client.metadata()
        assert broker.requests.lost() == 2
        for where in ({}, {"where": lambda one: True}):
            with pytest.raises(RequestsLost, match="2 requests of the time in question are lost: the journal keeps"):
                broker.requests.count("Produce", **where)
            with pytest.raises(RequestsLost):
                broker.requests.assert_none("Produce", **where)
        assert broker.requests.count("Metadata", since=broker.requests.mark()) == 0


# --- the whole broker


def test_it_stops_and_starts_on_the_same_port_with_the_same_data(broker: ConnectedBroker) -> None:
    address = broker.bootstrap_servers
    broker.produce("orders", b"placed")
    broker.stop()
    assert broker.bootstrap_servers == ""
    with pytest.raises(RuntimeError, match="was stopped"):
        broker.topics()
    broker.start()
    assert broker.bootstrap_servers == address
    assert [record.text() for record in broker.records("orders")] == ["placed"]
    broker.crash()
    assert len(broker.records("orders")) == 1


def test_a_snapshot_is_restored_by_what_was_returned_and_by_its_name(broker: ConnectedBroker) -> None:
    broker.produce("orders", b"seed")
    taken = broker.snapshot("morning")
    for again in (taken, "morning"):
        broker.produce("orders", b"later")
        broker.restore(again)
        assert [record.text() for record in broker.records("orders")] == ["seed"]


def test_a_file_of_lines_is_read_here_and_loaded_there(broker: ConnectedBroker, tmp_path: Path) -> None:
    lines = tmp_path / "seed.jsonl"
    lines.write_text('{"topic": "orders", "value": "one"}\n{"topic": "orders", "value": {"base64": "/w=="}}\n')
    assert broker.load(lines) == {"orders": 2}
    assert {record.value for record in broker.records("orders")} == {b"one", b"\xff"}
    (tmp_path / "values").write_bytes(b"plain\n\xfe\n")
    assert broker.load(tmp_path / "values", topic="users") == {"users": 2}
    with pytest.raises(SeedError, match="is a directory"):
        broker.load(tmp_path)
    lines.write_text("{")
    with pytest.raises(SeedError, match="line 1 is no JSON"):
        broker.load(lines)
    lines.write_text('{"topic": "orders"}\n')
    with pytest.raises(SeedError, match='"topic" and "value"'):
        broker.load(lines)


async def test_every_handle_can_be_awaited(broker: ConnectedBroker) -> None:
    aio = broker.aio
    assert await aio.topics() == ["orders"]
    await aio.topic("orders").produce(b"placed", key=b"42")
    assert len(await aio.topic("orders").wait_for(1)) == 1
    await aio.clock.advance("8d")
    assert await aio.records("orders") == []
    async with aio.faults.on("Produce").once().delay("1ms") as rule:
        assert rule.hits == 0
    assert await aio.faults.unhit() == []
    assert await aio.transactions.open() == []
    assert "topics  orders: 2 partitions" in await aio.report()


def test_blocking_waits_refuse_on_the_thread_of_a_running_loop(broker: ConnectedBroker) -> None:
    async def wait() -> None:
        with pytest.raises(RuntimeError, match=r"await broker.aio.topic\('orders'\).wait_for"):
            broker.topic("orders").wait_for(1)

    asyncio.run(wait())


def test_a_cluster_has_the_methods_of_a_cluster() -> None:
    with control_api(3, topics={}) as server:
        cluster = kmini.connect(server.url)
        assert isinstance(cluster, ConnectedCluster)
        with cluster:
            cluster.create_topic("orders", replication_factor=3)
            leader = cluster.leader("orders")
            address = cluster.address_of(leader)
            assert address in cluster.bootstrap_servers
            cluster.kill(leader)
            assert leader not in cluster.brokers()
            with pytest.raises(kmini.BrokerNotRunning, match=f"broker {leader} does not run"):
                cluster.address_of(leader)
            with pytest.raises(kmini.BrokerNotRunning):
                cluster.kill(leader)
            cluster.produce("orders", b"placed")
            cluster.restart(leader)
            cluster.wait_until_in_sync("orders")
            assert cluster.offsets("orders")[leader].log_end_offset == 1
            assert cluster.isr("orders") == {1, 2, 3}


# --- the connection


def test_an_address_without_a_control_server_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"the control server at http://127.0.0.1:1 does not answer"):
        kmini.connect("http://127.0.0.1:1")


def test_a_missing_extra_is_told() -> None:
    code = "import sys; sys.modules['h11'] = None; import kmini; kmini.connect('http://127.0.0.1:1')"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "ImportError: kmini.connect needs h11; pip install '.[http]' in a clone" in finished.stderr


def test_more_calls_can_wait_at_once_than_a_pool_has_connections(broker: ConnectedBroker) -> None:
    async def wait_all() -> list[object]:
        waits = [broker.aio.topic("orders").wait_for(1, timeout_ms=30_000) for _ in range(150)]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        await broker.aio.requests.mark()
        await broker.aio.produce("orders", b"placed")
        return await asyncio.gather(*tasks)

    assert len(asyncio.run(wait_all())) == 150


def test_a_wrong_token_is_told_and_the_right_one_serves() -> None:
    with control_api(topics={}, token="secret") as server:
        for token in (None, "wrong"):
            with pytest.raises(RuntimeError, match="Authorization: Bearer TOKEN is needed"):
                kmini.connect(server.url, token=token)
        with kmini.connect(server.url, token="secret") as broker:
            assert broker.topics() == []


def test_a_connection_leaves_nothing_behind(server: ControlApi) -> None:
    before = own_threads()
    with kmini.connect(server.url) as broker:
        broker.topics()
    until_no_thread_is_new(before)
    with pytest.raises(RuntimeError, match="the broker does not run"):
        broker.topics()
    broker.close()


def test_the_only_broker_is_paused_and_goes_on(broker: ConnectedBroker) -> None:
    broker.pause()
    with pytest.raises(ValueError, match="paused already"):
        broker.pause()
    broker.reconnect()
    assert broker.topics() == ["orders"]
