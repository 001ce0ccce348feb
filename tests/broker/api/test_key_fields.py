"""The key fields of requests: each API that is served, from the bytes of each of its versions."""

from __future__ import annotations

from typing import Any

import pytest

from kmini import Broker
from kmini.broker.api.key_fields import KeyFields, KeyPartition, Names, Producer, key_fields, without_records
from kmini.broker.handlers import HANDLERS
from kmini.protocol import messages as m
from kmini.protocol.messages import REQUESTS
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import REQUIRED, Field, Struct, Type
from kmini.protocol.uuids import ZERO_UUID, format_uuid
from kmini.testing import Wire
from support.for_each import for_each

ORDERS_ID = b"orders' own uuid"
OTHER_ID = b"of another topic"


def no_session(session_id: int) -> tuple[()]:
    return ()


NAMES = Names({ORDERS_ID: "orders"}.get, no_session)

HELD_BY = {
    "topic": ("name", "topic", "topic_name", "topic_names", "topics", "subscribed_topic_names", "source_topics"),
    "group": ("group_id", "groups", "groups_names", "group_ids"),
    "member": ("member_id",),
    "transactional": ("transactional_id", "transactional_ids", "v3_and_below_transactional_id"),
}
"""The fields whose texts a test marks, and with what."""

NO_KEYS = {"Cursor", "Assignment", "Protocol", "Config", "ForgottenTopic", "Resource", "Op", "Entity"}
"""Structs of requests whose names are not those of topics or groups that the request is about, or not alone."""


def example(cls: type[Struct], version: int) -> Any:
    """A message in which each field that names something names it after the kind of thing."""
    return cls(**{f.name: value_of(f, version) for f in cls.__fields__ if f.exists_in(version)})


def value_of(described: Field, version: int) -> Any:
    kind = next((kind for kind, names in HELD_BY.items() if described.name in names), None)
    return of_type(described.type, kind, version, described)


def of_type(type_: Type, kind: str | None, version: int, described: Field) -> Any:
    if type_.struct is not None:
        return None if type_.struct.__name__ == "Cursor" else example(type_.struct, version)
    assert type_.wire is not None
    if type_.wire.name == "array":
        assert type_.element is not None
        return [of_type(type_.element, kind, version, described)]
    if "string" in type_.wire.name:
        return f"a-{kind or 'text'}"
    if type_.wire.name == "records":
        return None
    if "uuid" in type_.wire.name:
        return ORDERS_ID
    if described.name.endswith("producer_id"):
        return 4711
    return 0 if described.default is REQUIRED else described.default


def texts(value: object) -> set[str]:
    if isinstance(value, str):
        return {value}
    return {text for one in value for text in texts(one)} if isinstance(value, tuple) else set()


def expected(cls: type[Struct], version: int) -> set[str]:
    """The kinds of things that a request names, as its schema says."""
    found: set[str] = set()
    for described in cls.__fields__:
        if not described.exists_in(version):
            continue
        held = described.type.element or described.type
        if held.struct is not None:
            if held.struct.__name__ not in NO_KEYS and not (described.type.is_nullable and described.tag is not None):
                found |= expected(held.struct, version)
        else:
            found |= {f"a-{kind}" for kind, names in HELD_BY.items() if described.name in names}
    return found


OF_SEVERAL_KINDS = {"AlterConfigs", "DescribeConfigs", "IncrementalAlterConfigs", "FindCoordinator"}
"""Requests in which one field says of what kind the name in another one is."""

OTHER_NAMES = {"AlterUserScramCredentials", "DescribeQuorum", "UpdateFeatures", "DescribeUserScramCredentials"}
"""Requests with a field `name` or `topic_name` that is not the name of a topic."""


@for_each("api_key", sorted(HANDLERS))
def test_each_topic_group_member_and_transaction_of_a_request_is_among_its_key_fields(api_key: int) -> None:
    cls = REQUESTS[api_key]
    if cls.name in OTHER_NAMES:
        assert key_fields(example(cls, cls.max_version), NAMES) == KeyFields()
        return
    for version in range(HANDLERS[api_key].min_version, HANDLERS[api_key].max_version + 1):
        found = key_fields(example(cls, version), NAMES)
        named = {"orders" if text == "a-topic" else text for text in expected(cls, version)}
        # In versions with topic ids the name is the id's.
        assert {"orders" if text == "a-topic" else text for text in texts(found)} >= named, (cls.name, version)
        assert not any("text" in text for text in texts(found)) or cls.name in OF_SEVERAL_KINDS


@pytest.mark.parametrize(
    "api_key", sorted(key for key in HANDLERS if "producer_id" in str([f.name for f in REQUESTS[key].__fields__]))
)
def test_the_producer_of_a_request_is_among_its_key_fields(api_key: int) -> None:
    cls = REQUESTS[api_key]
    if cls.name == "ListTransactions":  # a filter names no producer's request
        return
    version = HANDLERS[api_key].max_version
    assert [one.id for one in key_fields(example(cls, version), NAMES).producers] == [4711]


def produced(*counts: int, topic: str = "orders", transactional_id: str | None = None) -> m.ProduceRequest:
    Topic = m.ProduceRequest.Topic
    sent = [
        Topic.Partition(
            index=number,
            records=build_batch(
                [Record(0, 1_000, b"key", b"value")] * count, producer_id=7, producer_epoch=2, base_sequence=0
            ),
        )
        for number, count in enumerate(counts)
    ]
    data = [Topic(name=topic, topic_id=ORDERS_ID, partition_data=sent)]
    return m.ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=data)


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_a_produce_says_how_many_records_go_to_which_partition_and_who_its_producer_is(version: int) -> None:
    wire = b"".join(produced(1, 3, transactional_id="payments").encode(version))
    request = m.ProduceRequest.decode(memoryview(bytearray(wire)), version)
    assert key_fields(request, NAMES) == KeyFields(
        (KeyPartition("orders", 0, records=1), KeyPartition("orders", 1, records=3)),
        transactional_ids=("payments",),
        producers=(Producer(7, 2),),
    )


def test_a_produce_without_its_records_has_the_same_key_fields_and_no_view_of_what_it_came_from() -> None:
    arrived = bytearray(b"".join(produced(1, 500, transactional_id="payments").encode(9)))
    request = m.ProduceRequest.decode(memoryview(arrived), 9)
    kept = without_records(request)
    asked = key_fields(request, NAMES)
    del request
    arrived.clear()  # BufferError while a view is left
    assert key_fields(kept, NAMES) == asked


@pytest.mark.parametrize("records", [None, b"", b"short", bytes(200)])
def test_records_that_are_no_batch_are_not_counted(records: bytes | None) -> None:
    request = produced(1)
    request.topic_data[0].partition_data[0].records = records
    assert key_fields(request, NAMES).partitions == (KeyPartition("orders", 0),)
    assert key_fields(without_records(request), NAMES).partitions == (KeyPartition("orders", 0),)


def fetch(*numbers: int, session_id: int = 0, epoch: int = -1, forget: tuple[int, ...] = ()) -> m.FetchRequest:
    Topic = m.FetchRequest.Topic
    partitions = [Topic.Partition(partition=n, fetch_offset=5, partition_max_bytes=1 << 20) for n in numbers]
    forgotten = [m.FetchRequest.ForgottenTopic(topic="orders", partitions=list(forget))] if forget else []
    return m.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[Topic(topic="orders", partitions=partitions)] if partitions else [],
        forgotten_topics_data=forgotten,
    )


def test_a_fetch_that_names_no_partition_reads_those_of_its_session() -> None:
    session = {9: [("orders", ZERO_UUID, 0), ("", ORDERS_ID, 1)]}
    names = NAMES._replace(session=lambda session_id: session.get(session_id, []))
    follow_up = fetch(1, session_id=9, epoch=4)
    assert key_fields(follow_up, names).partitions == (KeyPartition("orders", 0), KeyPartition("orders", 1, 5))
    assert key_fields(fetch(session_id=9, epoch=5, forget=(0,)), names).partitions == (KeyPartition("orders", 1),)
    assert key_fields(fetch(0, session_id=9, epoch=0), names).partitions == (KeyPartition("orders", 0, 5),)
    assert key_fields(fetch(session_id=8, epoch=1), names).partitions == ()


@pytest.mark.sockets
def test_the_broker_names_the_partitions_of_a_session_that_it_keeps() -> None:
    with Broker(topics={"orders": 2}) as broker, Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(fetch(0, epoch=0), 7)
        assert answer.session_id
        names = Names.of(broker._operations.any_broker().services)
        assert list(names.session(answer.session_id)) == [("orders", ZERO_UUID, 0)]
        wire.ask(fetch(1, session_id=answer.session_id, epoch=1, forget=(0,)), 7)
        assert list(names.session(answer.session_id)) == [("orders", ZERO_UUID, 1)]


@pytest.mark.parametrize(("topic_id", "name"), [(ORDERS_ID, "orders"), (OTHER_ID, format_uuid(OTHER_ID))])
def test_a_topic_id_is_shown_as_the_name_of_its_topic_or_as_text(topic_id: bytes, name: str) -> None:
    request = m.MetadataRequest(topics=[m.MetadataRequest.Topic(topic_id=topic_id)])
    assert key_fields(request, NAMES).topics == (name,)


def test_a_coordinator_is_sought_for_a_group_or_a_transaction() -> None:
    assert key_fields(m.FindCoordinatorRequest(key="billing"), NAMES) == KeyFields(groups=("billing",))
    several = m.FindCoordinatorRequest(key_type=1, coordinator_keys=["tx-1", "tx-2"])
    assert key_fields(several, NAMES) == KeyFields(transactional_ids=("tx-1", "tx-2"))


def test_each_of_several_topics_groups_and_producers_is_among_the_key_fields() -> None:
    Marker, Member = m.WriteTxnMarkersRequest.Marker, m.LeaveGroupRequest.Member
    markers = [
        Marker(
            producer_id=number,
            producer_epoch=number,
            transaction_result=True,
            coordinator_epoch=0,
            topics=[Marker.Topic(name=name, partition_indexes=[0, number]) for name in ("a", "b")],
        )
        for number in (1, 2)
    ]
    assert key_fields(m.WriteTxnMarkersRequest(markers=markers), NAMES) == KeyFields(
        tuple(KeyPartition(name, at) for number in (1, 2) for name in ("a", "b") for at in (0, number)),
        producers=(Producer(1, 1), Producer(2, 2)),
    )
    assert key_fields(m.DeleteGroupsRequest(groups_names=["g", "h"]), NAMES) == KeyFields(groups=("g", "h"))
    leaving = m.LeaveGroupRequest(group_id="g", members=[Member(member_id="x"), Member(member_id="y")])
    assert key_fields(leaving, NAMES) == KeyFields(groups=("g",), members=("x", "y"))


def test_settings_are_no_key_fields() -> None:
    Resource = m.AlterConfigsRequest.Resource
    configs = [Resource.Config(name="sasl.jaas.config", value="hush-hush")]
    resources = [
        Resource(resource_type=kind, resource_name=name, configs=configs)
        for kind, name in ((2, "orders"), (4, "1"), (32, "billing"))
    ]
    found = key_fields(m.AlterConfigsRequest(resources=resources), NAMES)
    assert found == KeyFields((KeyPartition("orders"),), ("billing",))


@pytest.mark.sockets
def test_a_first_join_has_no_member_yet() -> None:
    request = m.JoinGroupRequest(
        group_id="billing", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[]
    )
    assert key_fields(request, NAMES) == KeyFields(groups=("billing",))
