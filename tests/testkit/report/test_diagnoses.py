"""Each diagnosis is made where its fault is, and is not made beside it; the reports of whole tests are in
`test_failing_tests.py`."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.api.key_fields import KeyPartition
from kmini.broker.groups.group import Departure
from kmini.broker.journal.entries import JournalEntry
from kmini.broker.local_cluster import BrokerEvent
from kmini.protocol.topics import TopicPartition
from kmini.testkit.client_connections import ClientConnection
from kmini.testkit.contents import Record
from kmini.testkit.descriptions import GroupDescription, GroupMember
from kmini.testkit.failed_waits import FailedWait
from kmini.testkit.report import diagnoses, group_diagnoses
from kmini.testkit.report.diagnoses import DIAGNOSES, Diagnosis, likely
from kmini.testkit.report.facts import ClusterFacts, Facts, FaultFacts, GroupFacts, PartitionFacts, Replicas, TopicFacts
from support.small_client import SmallClient


def facts(**given: Any) -> Facts:
    """Facts in which nothing is wrong, but for what is given."""
    given = {"topics": (topic("orders", 1),), "requests": (request("Produce", "orders"),), **given}
    numbered = [entry._replace(number=number) for number, entry in enumerate(given.pop("requests"), 1)]
    known = {
        "began_s": 1.0,
        "addresses": ("127.0.0.1:9092",),
        "told": (),
        "requests": tuple(numbered),
        "has_journal": True,
        "lost": 0,
        "groups": (),
        "transactions": (),
        "clients": (),
        "faults": (),
        "ahead_ms": 0,
    }
    return Facts(**{**known, **given})


def topic(name: str, records: int, *, start: int = 0, hidden: int = 0) -> TopicFacts:
    end = start + records + hidden
    return TopicFacts(name, 1, (PartitionFacts(0, start, end, end, records, hidden, None),))


def holding(record: Record) -> TopicFacts:
    (partition,) = topic(record.topic, 1).partitions
    return TopicFacts(record.topic, 1, (partition._replace(at={record.offset: record}),))


def cluster(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> ClusterFacts:
    """Two brokers, of which the second was killed, and a partition of "orders"."""
    place = TopicPartition("orders", 0)
    killed = BrokerEvent(1.0, 2, "was killed")
    return ClusterFacts((1, 2), (1,), (killed,), (Replicas(place, leader, replicas, isr),))


def request(api: str, topic: str | None = None, *errors: str, **given: Any) -> JournalEntry:
    partitions = () if topic is None else (KeyPartition(topic, 0),)
    source = (1, 1, api, 9, "app", "127.0.0.1:50000", "User:ANONYMOUS", 1)
    entry = JournalEntry(*source, 1_000, 1_000, 0.5, partitions, (), (), (), (), 10, 10, errors, None, ())
    return entry._replace(**given)


def group(state: str, *members: tuple[str, tuple[str, ...], int], **offsets: int) -> GroupFacts:
    """A group of members: client id, subscribed topics, and the number of partitions that it has."""
    described = tuple(
        GroupMember(
            f"{client}-1", client, "127.0.0.1", None, topics, tuple(TopicPartition(topics[0], n) for n in range(has))
        )
        for client, topics, has in members
    )
    committed = {TopicPartition(name, 0): offset for name, offset in offsets.items()}
    return GroupFacts(GroupDescription("billing", "classic", state, 1, "range", described, 1), committed)


def reconciling(has: int, target: int) -> GroupFacts:
    """A consumer group of two: the first member has so many partitions of "orders" and is to have so many, the second
    one has none, and is to have all others of three."""
    places = tuple(TopicPartition("orders", number) for number in range(3))
    (first, second) = group("Reconciling", ("a", ("orders",), has), ("b", ("orders",), 0)).description.members
    members = (first._replace(target=places[:target]), second._replace(target=places[target:]))
    return GroupFacts(GroupDescription("billing", "consumer", "Reconciling", 3, "uniform", members, 1, 3), {})


def sharing() -> GroupFacts:
    """A share group of two members and a partition, which the second one has not been assigned yet."""
    found = group("Stable", ("a", ("orders",), 1), ("b", ("orders",), 0))
    return found._replace(description=found.description._replace(kind="share"))


READER = ("billing-1", ("orders",), 1)
JOINING = request("JoinGroup", None, client_id="new", groups=("billing",), ms=None)
BEGINS_LATEST = (
    request("Produce", "orders"),
    request("ListOffsets", partitions=(KeyPartition("orders", 0, -1),)),
    request("Fetch", partitions=(KeyPartition("orders", 0, 1),)),
)
FETCHED = (
    request("JoinGroup", groups=("billing",)),
    request("Fetch", partitions=(KeyPartition("orders", 0, 0),)),
)
BROKEN = Record(0, 1_000, b"42", b"{broken", topic="orders")

WAITED_FOR_TOPIC = FailedWait("topic('orders-dlt').wait_for(1)", "orders-dlt", None, "there is none", 2.0)
WAITED_FOR_GROUP = FailedWait("group('biling').stable()", None, "biling", "there is none", 2.0)
CONNECTED = (ClientConnection("billing-1", "", "127.0.0.1:50000", "PLAINTEXT", 0, "", 1),)


def left_after(ms: int) -> tuple[JournalEntry, ...]:
    """A member that leaves so long after its assignment."""
    synced = request("SyncGroup", groups=("billing",), members=("billing-1-1",), client_id="billing-1")
    return synced, synced._replace(api="LeaveGroup", time_ms=synced.time_ms + ms)


def departed(reason: str, *, is_expelled: bool = False) -> GroupFacts:
    """A group without members, which one has left."""
    gone = Departure("billing-1-1", "billing-1", 1, reason, is_expelled, 6_000)
    return group("Empty")._replace(departures=(gone,))


SHOWN: list[tuple[Diagnosis, dict[str, Any], str]] = [
    (diagnoses.no_client_came, {"requests": ()}, "no client sent a request to 127.0.0.1:9092"),
    (
        diagnoses.advertised_address_never_reached,
        {"told": ("kafka:9092",), "requests": (request("Metadata"),)},
        "never connected to the advertised address kafka:9092",
    ),
    (
        diagnoses.version_or_codec_refused,
        {"requests": (request("Produce", "orders", "UNSUPPORTED_COMPRESSION_TYPE"),)},
        "client 'app' was refused Produce v9: UNSUPPORTED_COMPRESSION_TYPE",
    ),
    (
        diagnoses.version_or_codec_refused,
        {"requests": (request("Fetch", closed="served in versions 4 to 18", version=2),)},
        "client 'app' asked for Fetch v2, which is served in versions 4 to 18",
    ),
    (
        diagnoses.topic_does_not_exist,
        {"groups": (group("Stable", ("billing-1", ("ordres",), 0)),)},
        "consumer 'billing-1' of group billing subscribed to 'ordres', which does not exist; nearest: 'orders'",
    ),
    (
        diagnoses.topic_does_not_exist,
        {"requests": (request("Metadata", "ordres", "UNKNOWN_TOPIC_OR_PARTITION"),) * 3},
        "client 'app' asked 3 times for topic 'ordres', which does not exist; nearest: 'orders'",
    ),
    (
        group_diagnoses.leftover_member,
        {"groups": (group("PreparingRebalance", READER),), "requests": (JOINING,)},
        "group billing waits for 'billing-1', which is still a member",
    ),
    (
        diagnoses.rule_never_hit,
        {"faults": (FaultFacts("lost", 0, "fault rule 'lost' never acted: no request came"),)},
        "fault rule 'lost' never acted",
    ),
    (
        diagnoses.aborted_or_fenced,
        {"requests": (request("EndTxn", None, "INVALID_PRODUCER_EPOCH", transactional_ids=("tx-1",)),)},
        "its time-out passed; the EndTxn of client 'app' came after that",
    ),
    (
        diagnoses.last_produce_failed,
        {"requests": (request("Produce", "orders", "MESSAGE_TOO_LARGE"),) * 2},
        "the last Produce of client 'app' to orders failed 2 times: MESSAGE_TOO_LARGE",
    ),
    (
        diagnoses.last_produce_failed,
        {"requests": (request("Produce", "orders", "NOT_LEADER_OR_FOLLOWER", faults=("moved",)),)},
        "failed once: NOT_LEADER_OR_FOLLOWER (fault rule 'moved' acted)",
    ),
    (
        diagnoses.wrong_topic,
        {"topics": (topic("order", 2), topic("orders", 0))},
        "'order' has 2 records; nothing was ever written to 'orders'",
    ),
    (
        diagnoses.older_than_retention,
        {"topics": (topic("orders", 0, start=7),), "ahead_ms": 90_061_000},
        "partition 0 now starts at its end, offset 7; the clock was moved ahead by 1d1h",
    ),
    (
        group_diagnoses.partitions_not_given_up,
        {"groups": (reconciling(has=3, target=2),)},
        "group billing is Reconciling: 'b' waits for orders-2, which 'a' has not given up",
    ),
    (
        group_diagnoses.never_assigned,
        {"groups": (group("CompletingRebalance", ("billing-1", ("orders",), 0)),)},
        "group billing is CompletingRebalance: 'billing-1' never got a partition",
    ),
    (group_diagnoses.assigned_after_produce, {"requests": BEGINS_LATEST}, "began at the end of orders-0 at +0.00 s"),
    (
        group_diagnoses.more_members_than_partitions,
        {"groups": (group("Stable", READER, ("billing-2", ("orders",), 0)),)},
        "group billing has 2 members and orders has 1 partition: 'billing-2' has no partition, and fetches nothing",
    ),
    (
        group_diagnoses.group_at_the_end,
        {"groups": (group("Stable", READER, orders=1),), "requests": (request("OffsetFetch", groups=("billing",)),)},
        "group billing had committed the end of orders before client 'app' asked where to begin",
    ),
    (
        diagnoses.topic_does_not_exist,
        {"waits": (WAITED_FOR_TOPIC._replace(topic="ordres"),)},
        "the test waited for topic 'ordres', which does not exist; nearest: 'orders'",
    ),
    (
        diagnoses.wrong_topic,
        {"topics": (topic("ordres", 0)._replace(auto_created_by="client 'app'"), topic("orders", 1))},
        "'ordres' is not 'orders': the broker created it, because client 'app' asked for it",
    ),
    (
        diagnoses.wrong_topic,
        {"topics": (topic("order-dlt", 1), topic("orders-dlt", 0)), "waits": (WAITED_FOR_TOPIC,)},
        "nothing was ever written to 'orders-dlt', for which the test waited",
    ),
    (
        diagnoses.no_client_came,
        {"requests": (), "is_address_known": False, "waits": (WAITED_FOR_TOPIC,)},
        "no client sent a request to 127.0.0.1:9092",
    ),
    (
        diagnoses.acted_too_late,
        {
            "waits": (WAITED_FOR_TOPIC._replace(topic="orders", ended_s=0.6),),
            "faults": (FaultFacts("lost", 1, ""),),
            "requests": (request("Produce", "orders", faults=("lost",)),),
        },
        "topic('orders-dlt').wait_for(1) ended 0.4 s before fault rule 'lost' first acted, on Produce of client",
    ),
    (
        diagnoses.without_leader,
        {"cluster": cluster(-1, (1, 2), (2,))},
        "no broker leads orders-0, so clients wait: broker 1 runs; broker 2 was killed (in sync: 2)",
    ),
    (
        diagnoses.too_few_in_sync,
        {"cluster": cluster(1, (1, 2), (1,)), "requests": (request("Produce", "orders", "NOT_ENOUGH_REPLICAS"),)},
        "refused with NOT_ENOUGH_REPLICAS: orders-0: broker 1 leads; in sync: 1; replicas: 1, 2; broker 2 was killed",
    ),
    (
        group_diagnoses.assigned_after_produce,
        {"requests": BEGINS_LATEST[1:]},
        "began at the end of orders-0 at +0.00 s (auto.offset.reset=latest, nothing committed), after all records",
    ),
    (
        group_diagnoses.assigned_after_produce,
        {
            "requests": (*BEGINS_LATEST, request("OffsetCommit", "orders", groups=("billing",))),
            "groups": (group("Stable", READER, orders=1),),
        },
        "began at the end of orders-0",
    ),
    (
        group_diagnoses.fetched_and_never_committed,
        {"topics": (holding(BROKEN),), "groups": (group("Stable", READER),), "requests": FETCHED},
        "client 'app' of group billing fetched orders-0@0 at +0.00 s, never committed, and nothing was asked for "
        "since: the handler of the record key=b'42' value=b'{broken' failed",
    ),
    (
        group_diagnoses.left_without_partition,
        {
            "groups": (departed("")._replace(departures=(Departure("b-1", "b", 2, "", False, 6_000),)),),
            "requests": (
                request("SyncGroup", groups=("billing",)),
                request("Fetch", "orders"),
                request("LeaveGroup", groups=("billing",), client_id="b"),
            ),
        },
        "consumer 'b' of group billing never had a partition until it left: there were 2 members, and orders has 1",
    ),
    (
        diagnoses.auto_created_by_mistake,
        {
            "topics": (topic("ordres", 1)._replace(auto_created_by="client 'app'"), topic("orders", 1)),
            "requests": (request("Metadata", "ordres"),),
        },
        "'ordres' may be a misspelled 'orders': the broker created it at +0.00 s, because client 'app' asked for it",
    ),
    (
        group_diagnoses.member_expelled,
        {"groups": (departed("no heartbeat for session.timeout.ms=6000", is_expelled=True),)},
        "consumer 'billing-1' was removed from group billing in generation 1: no heartbeat for session.timeout.ms=6000",
    ),
    (
        group_diagnoses.member_expelled,
        {"groups": (departed("consumer poll timeout has expired."),)},
        "left group billing in generation 1, because it did not poll for max.poll.interval.ms=6000",
    ),
    (
        group_diagnoses.member_expelled,
        {"groups": (departed(""),), "requests": left_after(5_990), "clients": CONNECTED},
        "left group billing 6.0 s after it had got its partitions, and stays connected",
    ),
    (
        group_diagnoses.group_never_joined,
        {"groups": (group("Stable", READER),), "waits": (WAITED_FOR_GROUP,)},
        "the test waited for group 'biling', which no client ever joined; nearest: 'billing'",
    ),
    (
        group_diagnoses.fetched_beyond_what_is_committed,
        {
            "topics": (topic("orders", 3),),
            "groups": (group("Empty"),),
            "waits": (WAITED_FOR_GROUP._replace(group="billing"),),
            "requests": (
                request("OffsetFetch", groups=("billing",)),
                request("Fetch", partitions=(KeyPartition("orders", 0, 0),)),
                request("Fetch", partitions=(KeyPartition("orders", 0, 3),)),
            ),
        },
        "of group billing fetched 3 records of orders-0, and nothing was committed",
    ),
    (
        diagnoses.written_after_the_wait,
        {
            "topics": (topic("orders-dlt", 1),),
            "waits": (WAITED_FOR_TOPIC,),
            "requests": (request("Produce", "orders-dlt", time_ms=2_400),),
        },
        "topic('orders-dlt').wait_for(1) ended 0.4 s before client 'app' wrote to orders-dlt: wait longer (timeout_ms)",
    ),
    (
        group_diagnoses.group_never_joined,
        {
            "waits": (WAITED_FOR_GROUP,),
            "requests": (request("ShareGroupHeartbeat", None, "GROUP_MAX_SIZE_REACHED", groups=("biling",)),),
        },
        "client 'app' could not join group 'biling': ShareGroupHeartbeat was answered GROUP_MAX_SIZE_REACHED",
    ),
    (
        group_diagnoses.group_never_joined,
        {
            "waits": (WAITED_FOR_GROUP,),
            "requests": (
                request("JoinGroup", None, "MEMBER_ID_REQUIRED", groups=("biling",)),
                request("JoinGroup", None, "INVALID_SESSION_TIMEOUT", groups=("biling",)),
            ),
        },
        "could not join group 'biling': JoinGroup was answered INVALID_SESSION_TIMEOUT",
    ),
]


@pytest.mark.parametrize(("diagnosis", "given", "sentence"), SHOWN, ids=lambda one: getattr(one, "__name__", ""))
def test_a_fault_is_named_and_is_the_likeliest_reason(
    diagnosis: Diagnosis, given: dict[str, Any], sentence: str
) -> None:
    found = diagnosis(facts(**given))
    assert found is not None
    assert sentence in found
    assert next(likely(facts(**given))) == found


NOT_SHOWN: list[tuple[Diagnosis, dict[str, Any]]] = [
    (diagnoses.no_client_came, {"requests": (), "has_journal": False}),
    (diagnoses.no_client_came, {"requests": (), "lost": 3}),
    (diagnoses.no_client_came, {"requests": (), "is_address_known": False}),
    (
        diagnoses.no_client_came,
        {"requests": (), "is_address_known": False, "waits": (WAITED_FOR_TOPIC._replace(topic="orders"),)},
    ),
    (
        diagnoses.acted_too_late,
        {
            "waits": (WAITED_FOR_TOPIC._replace(topic="orders"),),
            "faults": (FaultFacts("lost", 1, ""),),
            "requests": (request("Produce", "orders", faults=("lost",)),),
        },
    ),
    (diagnoses.without_leader, {"cluster": cluster(1, (1, 2), (1,))}),
    (
        diagnoses.too_few_in_sync,
        {"cluster": cluster(1, (1, 2), (1, 2)), "requests": (request("Produce", "orders", "NOT_ENOUGH_REPLICAS"),)},
    ),
    (
        diagnoses.wrong_topic,
        {"topics": (topic("orders-dlt", 0), topic("orders", 1)), "waits": (WAITED_FOR_TOPIC,)},
    ),
    (diagnoses.wrong_topic, {"topics": (topic("shop.orders.created", 1), topic("shop.orders.cancelled", 0))}),
    (
        group_diagnoses.fetched_and_never_committed,
        {
            "topics": (holding(BROKEN),),
            "groups": (group("Stable", READER),),
            "requests": (*FETCHED, request("Fetch", partitions=(KeyPartition("orders", 0, 1),))),
        },
    ),
    (
        group_diagnoses.fetched_and_never_committed,
        {"topics": (holding(BROKEN),), "groups": (group("Stable", READER, orders=1),), "requests": FETCHED},
    ),
    (
        group_diagnoses.left_without_partition,
        {"groups": (departed(""),), "requests": (request("Fetch", "orders", client_id="billing-1"),)},
    ),
    (diagnoses.advertised_address_never_reached, {"told": ("kafka:9092",)}),
    (group_diagnoses.leftover_member, {"groups": (group("Stable", READER),), "requests": (JOINING,)}),
    (diagnoses.last_produce_failed, {"requests": (request("Produce", "orders", "X"), request("Produce", "orders"))}),
    (diagnoses.wrong_topic, {"topics": (topic("invoices", 2), topic("orders", 0))}),
    (
        diagnoses.older_than_retention,
        {"topics": (topic("orders", 0, start=7),), "requests": (request("DeleteRecords"),)},
    ),
    (diagnoses.topic_does_not_exist, {"waits": (WAITED_FOR_TOPIC._replace(topic="orders"), WAITED_FOR_GROUP)}),
    (diagnoses.wrong_topic, {"topics": (topic("orders-dlt", 0), topic("orders", 2))}),
    (diagnoses.wrong_topic, {"topics": (topic("orders-1", 0), topic("orders-2", 2))}),
    (
        diagnoses.auto_created_by_mistake,
        {"topics": (topic("orders-dlt", 1)._replace(auto_created_by="client 'app'"), topic("orders", 1))},
    ),
    (group_diagnoses.member_expelled, {"groups": (departed("the consumer is being closed"),)}),
    (
        group_diagnoses.member_expelled,
        {"groups": (departed(""),), "requests": left_after(3_000), "clients": CONNECTED},
    ),
    (group_diagnoses.member_expelled, {"groups": (departed(""),), "requests": left_after(6_000)}),
    (
        group_diagnoses.group_never_joined,
        {"groups": (group("Stable", READER),), "waits": (WAITED_FOR_GROUP._replace(group="billing"),)},
    ),
    (group_diagnoses.partitions_not_given_up, {"groups": (reconciling(has=1, target=2),)}),
    (group_diagnoses.partitions_not_given_up, {"groups": (group("PreparingRebalance", READER),)}),
    (group_diagnoses.never_assigned, {"groups": (group("Stable", READER),)}),
    (group_diagnoses.assigned_after_produce, {"requests": (request("Fetch", "orders"), *BEGINS_LATEST)}),
    (group_diagnoses.assigned_after_produce, {"requests": BEGINS_LATEST[1:], "topics": (topic("orders", 2),)}),
    (
        group_diagnoses.assigned_after_produce,
        {"requests": BEGINS_LATEST, "groups": (group("Stable", READER, orders=0),)},
    ),
    (group_diagnoses.more_members_than_partitions, {"groups": (group("Stable", READER),)}),
    (group_diagnoses.more_members_than_partitions, {"groups": (sharing(),), "topics": (topic("orders", 1),)}),
    (
        group_diagnoses.group_at_the_end,
        {
            "groups": (group("Stable", READER, orders=1),),
            "requests": (request("OffsetFetch", groups=("billing",)), request("OffsetCommit", groups=("billing",))),
        },
    ),
    (
        group_diagnoses.group_at_the_end,
        {"groups": (group("Stable", READER, orders=0),), "requests": (request("OffsetFetch", groups=("billing",)),)},
    ),
]


@pytest.mark.parametrize(("diagnosis", "given"), NOT_SHOWN, ids=lambda one: getattr(one, "__name__", ""))
def test_what_is_like_a_fault_is_not_named(diagnosis: Diagnosis, given: dict[str, Any]) -> None:
    assert diagnosis(facts(**given)) is None


@pytest.mark.parametrize("diagnosis", DIAGNOSES)
def test_where_nothing_is_wrong_nothing_is_named(diagnosis: Diagnosis) -> None:
    assert diagnosis(facts()) is None


def test_every_diagnosis_has_a_case() -> None:
    """`transaction_left_open` is shown by `test_failing_tests.py`, and those of the schema registry by
    `test_registry_diagnoses.py`."""
    elsewhere = {diagnoses.transaction_left_open, diagnoses.schema_refused, diagnoses.registry_failed}
    assert {case[0] for case in SHOWN} | elsewhere == {*DIAGNOSES}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(journal=True, topics=["orders"]) as running:
        yield running


def test_a_transaction_that_timed_out_is_told_as_aborted(broker: Broker) -> None:
    with SmallClient(broker.bootstrap_servers, "order-service") as service:
        service.begin("order-tx", "orders", timeout_ms=30_000)
        assert service.produce("orders") == 0
        broker.clock.advance("1m", liveness=True)
        broker.transactions.wait_ended("order-tx")
        assert service.end() != 0
        assert broker.report().startswith(
            "LIKELY  transaction 'order-tx' of client 'order-service' was aborted, because its time-out passed"
        )


@pytest.mark.parametrize("name", ["order", "orders-12", "oders", "payments", "ordres-1", "payment-", "xyz"])
def test_the_closest_name_is_the_one_that_difflib_finds_most_similar(name: str) -> None:
    names = ("orders", *(f"orders-{number}" for number in range(20)), "payment", "payments-dlt", "order-s")
    near = get_close_matches(name, names, n=1, cutoff=diagnoses.CLOSE)
    found = diagnoses.closest(name, names)
    assert [found] == (near or [None]) or (
        SequenceMatcher(None, found, name).ratio() == SequenceMatcher(None, near[0], name).ratio()
    )
