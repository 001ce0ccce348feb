"""Fault rules of the test kit in front of a broker that knows nothing of them."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from kmini.protocol.messages import ApiVersionsRequest, FetchRequest, FetchResponse, MetadataRequest, ProduceRequest
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.schema import Request
from kmini.trace.observer import Observer
from kmini.trace.proxied_faults import ProxiedFaults
from support.batches import Item, batch
from support.traced import Traced, traced


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as running:
        yield running


class Client:
    """One connection through the proxy."""

    def __init__(self, proxy: Traced) -> None:
        self.socket = socket.create_connection(("127.0.0.1", proxy.port), 30)
        self._count = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Request, version: int) -> None:
        self._count += 1
        header = RequestHeader(request.api_key, version, self._count, "app").encode(request.header_version(version))
        content = header + b"".join(request.encode(version))
        self.socket.sendall(struct.pack(">i", len(content)) + content)

    def frame(self) -> bytes:
        """The next answer; fewer bytes where the connection ended first."""
        start = self._exactly(4)
        return start if len(start) < 4 else self._exactly(struct.unpack(">i", start)[0])

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return b"RST"
            if not more:
                break
            data += more
        return data

    def ask(self, request: Request, version: int) -> Any:
        self.send(request, version)
        frame = self.frame()
        start = 4 if request.response.header_version(version) == 0 else 5
        return request.response.decode(frame[start:], version)


def produce(*values: bytes, topic: str = "orders", partition: int = 0, acks: int = -1) -> ProduceRequest:
    records = batch([Item(value=value) for value in values])
    data = [ProduceRequest.Partition(index=partition, records=records)]
    topics = [ProduceRequest.Topic(name=topic, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def fetch(partition: int = 0) -> FetchRequest:
    asked = FetchRequest.Partition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchRequest.Topic(topic="orders", partitions=[asked])])


def rule(api: str, *do: dict[str, Any], which: dict[str, Any] | None = None, **when: Any) -> dict[str, Any]:
    return {"name": "rule", "when": {"api": [api], **when}, "which": which or {}, "do": [*do]}


def code_of(answer: Any) -> int:
    found: int = answer.responses[0].partition_responses[0].error_code
    return found


def summary(proxy: Traced) -> str:
    assert proxy.faults is not None
    (found,) = proxy.faults.summaries()
    return found


def test_a_produce_fails_twice_and_nothing_of_it_is_applied(broker: Broker) -> None:
    failing = rule("Produce", {"error": "NOT_LEADER_OR_FOLLOWER"}, which={"times": 2}, topic="orders")
    with traced(broker.bootstrap_servers, [failing]) as proxy, Client(proxy) as client:
        assert [code_of(client.ask(produce(b"a"), 9)) for _ in range(3)] == [6, 6, 0]
        assert [record.value for record in broker.records("orders")] == [b"a"]
        shown = [(one.entry.errors, one.entry.faults) for one in proxy.shown("Produce", 3)]
        assert shown == [(("NOT_LEADER_OR_FOLLOWER",), ("rule",))] * 2 + [((), ())]
        assert summary(proxy) == "fault rule 'rule': it acted 2 times on 3 requests that it means"


def test_an_error_may_come_after_the_request_was_applied(broker: Broker) -> None:
    failing = rule("Produce", {"error": "REQUEST_TIMED_OUT", "applied": True}, which={"times": 1})
    with traced(broker.bootstrap_servers, [failing]) as proxy, Client(proxy) as client:
        assert code_of(client.ask(produce(b"a"), 9)) == 7
        assert [record.value for record in broker.records("orders")] == [b"a"]


def test_an_answer_is_lost_after_the_request_was_applied(broker: Broker) -> None:
    losing = rule("Produce", {"disconnect": True, "applied": True, "rst": True}, which={"times": 1})
    with traced(broker.bootstrap_servers, [losing]) as proxy:
        with Client(proxy) as client:
            client.send(produce(b"a"), 9)
            assert client.frame() == b"RST"
        assert [record.value for record in broker.records("orders")] == [b"a"]
        (exchange,) = proxy.shown("Produce")
        assert exchange.entry.closed == "fault rule 'rule'"


def test_only_the_partition_that_a_rule_names_fails(broker: Broker) -> None:
    failing = rule("Produce", {"error": "NOT_LEADER_OR_FOLLOWER"}, topic="orders", partition=1)
    with traced(broker.bootstrap_servers, [failing]) as proxy, Client(proxy) as client:
        assert code_of(client.ask(produce(b"a"), 9)) == 0
        assert code_of(client.ask(produce(b"b", partition=1), 9)) == 6
        assert [record.value for record in broker.records("orders")] == [b"a"]


def test_an_answer_is_delayed_and_later_requests_wait_behind_it(broker: Broker) -> None:
    slow = rule("Metadata", {"delay": "300ms"}, which={"times": 1})
    with traced(broker.bootstrap_servers, [slow]) as proxy, Client(proxy) as client:
        began_s = time.perf_counter()
        client.send(MetadataRequest(topics=[]), 9)
        client.send(ApiVersionsRequest(), 0)
        assert struct.unpack(">i", client.frame()[:4]) == (1,)
        assert time.perf_counter() - began_s >= 0.3
        assert struct.unpack(">i", client.frame()[:4]) == (2,)


def test_a_request_for_which_a_rule_waits_goes_after_those_before_it(broker: Broker) -> None:
    with traced(broker.bootstrap_servers, [rule("Metadata", {"delay": "1ms"})]) as proxy, Client(proxy) as client:
        for number in range(50):
            client.send(ApiVersionsRequest() if number % 2 else MetadataRequest(topics=[]), 0 if number % 2 else 9)
        assert [struct.unpack(">i", client.frame()[:4])[0] for _ in range(50)] == [*range(1, 51)]


def test_a_truncated_answer_ends_the_connection(broker: Broker) -> None:
    with traced(broker.bootstrap_servers, [rule("Metadata", {"truncate": 9})]) as proxy, Client(proxy) as client:
        client.send(MetadataRequest(topics=[]), 9)
        assert len(client.frame()) == 5


def test_an_answer_trickles(broker: Broker) -> None:
    with (
        traced(broker.bootstrap_servers, [rule("ApiVersions", {"trickle": "4KB/s"})]) as proxy,
        Client(proxy) as client,
    ):
        began_s = time.perf_counter()
        frame = client.ask(ApiVersionsRequest(), 0)
        assert frame.api_keys
        assert time.perf_counter() - began_s >= 0.05


def test_the_records_of_a_fetch_are_damaged(broker: Broker) -> None:
    broker.produce("orders", b"a", partition=0)
    with traced(broker.bootstrap_servers, [rule("Fetch", {"corrupt": "crc"}, which={"times": 1})]) as proxy:
        with Client(proxy) as client:
            damaged, whole = (client.ask(fetch(), 11) for _ in range(2))
        first, second = (bytes(one.responses[0].partitions[0].records) for one in (damaged, whole))
        assert isinstance(whole, FetchResponse)
        assert len(first) == len(second)
        assert [at for at in range(len(first)) if first[at] != second[at]] == [17]


def test_a_correlation_id_is_damaged(broker: Broker) -> None:
    damaging = rule("Metadata", {"corrupt": "correlation_id"})
    with traced(broker.bootstrap_servers, [damaging]) as proxy, Client(proxy) as client:
        client.send(MetadataRequest(topics=[]), 9)
        assert struct.unpack(">i", client.frame()[:4]) == (1 ^ 0x10000,)


def test_a_request_is_never_answered_and_its_client_may_leave(broker: Broker) -> None:
    with traced(broker.bootstrap_servers, [rule("Produce", {"drop": True, "applied": True})]) as proxy:
        with Client(proxy) as client:
            client.send(produce(b"a"), 9)
            assert broker.wait_for_records("orders", 1)
            client.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.frame()
        (exchange,) = proxy.shown("Produce")
        assert exchange.entry.closed == "the connection ended before the answer"


def test_new_connections_are_refused(broker: Broker) -> None:
    refusing = rule("connect", {"refuse": True}, which={"times": 1})
    with traced(broker.bootstrap_servers, [refusing]) as proxy:
        try:
            with Client(proxy) as client:
                client.send(ApiVersionsRequest(), 0)
                outcome = client.frame()
        except OSError:  # the reset came while it connected or wrote
            outcome = b"RST"
        assert outcome == b"RST"
        with Client(proxy) as client:
            assert client.ask(ApiVersionsRequest(), 0).api_keys


def test_a_rule_about_a_broker_that_an_answer_named_acts_there_alone(broker: Broker) -> None:
    slow = rule("Produce", {"error": "NOT_LEADER_OR_FOLLOWER"}, broker=1)
    with traced(broker.bootstrap_servers, [slow]) as proxy, Client(proxy) as client:
        assert code_of(client.ask(produce(b"a"), 9)) == 0
        client.ask(MetadataRequest(topics=[]), 9)
        assert code_of(client.ask(produce(b"b"), 9)) == 6


def test_a_produce_without_acks_passes_rules(broker: Broker) -> None:
    with traced(broker.bootstrap_servers, [rule("Produce", {"delay": "1ms"})]) as proxy, Client(proxy) as client:
        client.send(produce(b"a", acks=0), 9)
        assert client.ask(ApiVersionsRequest(), 0).api_keys
        assert [record.value for record in broker.wait_for_records("orders", 1)] == [b"a"]


def test_many_produces_without_acks_pass_rules_about_another_topic(broker: Broker) -> None:
    failing = rule("Produce", {"error": "NOT_LEADER_OR_FOLLOWER"}, topic="bills")
    with traced(broker.bootstrap_servers, [failing]) as proxy, Client(proxy) as client:
        for _ in range(1_500):
            client.send(produce(b"a", acks=0), 9)
        assert client.ask(ApiVersionsRequest(), 0).api_keys
        assert len(broker.wait_for_records("orders", 1_500)) == 1_500


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (rule("disk", {"disk": "full"}), "a rule about the disk needs a broker of kmini"),
        (rule("Produce", {"delay": "1s"}, principal="User:a"), "principal is no condition in front of another broker"),
        (rule("Produce", {"delay": "1s"}, listener="A"), "listener is no condition in front of another broker"),
        (rule("Produse", {"delay": "1s"}), "the API 'Produse' does not exist"),
    ],
    ids=["disk", "principal", "listener", "api"],
)
def test_a_rule_that_can_never_act_is_refused_with_a_sentence(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ProxiedFaults([document], Observer(lambda _: None))
