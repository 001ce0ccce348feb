"""What consumers and groups of real client libraries do when a request fails, as `broker.faults` makes it fail."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from support.librdkafka import impatient
from support.until import until

confluent = pytest.importorskip("confluent_kafka")

TIMEOUT_S = 30.0
GROUP = "billing"
SOON_EXPELLED_MS = 400
"""A session time-out for members that come back under another id: the group waits for the first one to expire."""


@pytest.fixture
def broker(broker: Broker) -> Broker:
    """The topic `orders` has one record."""
    broker.produce("orders", b"placed")
    return broker


@contextlib.contextmanager
def consumer(broker: Broker, **config: Any) -> Iterator[Any]:
    client = confluent.Consumer(
        {
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 5,
            "heartbeat.interval.ms": 20,
            "session.timeout.ms": 6_000,
            **impatient(broker.bootstrap_servers, **config),
        }
    )
    try:
        yield client
    finally:
        client.close()


def assigned(broker: Broker, client: Any, offset: int = 0) -> Any:
    client.assign([confluent.TopicPartition("orders", 0, offset)])
    return client


def first(client: Any) -> Any:
    """The first record or error that a consumer gets."""
    return until(lambda: client.poll(0.05), timeout_s=TIMEOUT_S, poll_s=0)


def first_value(client: Any) -> bytes:
    """The value of the first record; errors before it are what the library tells and goes on from."""
    while (found := first(client)).error():
        pass
    value: bytes = found.value()
    return value


FETCH_RETRIED = [
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
]


@pytest.mark.parametrize("code", FETCH_RETRIED)
def test_confluent_fetches_again_after_a_retriable_error(broker: Broker, code: str) -> None:
    rule = broker.faults.on("Fetch", topic="orders").times(2).error(code)
    with consumer(broker, topic_metadata_refresh_interval_ms=50) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=2)


def test_an_offset_out_of_range_is_reset_as_the_client_is_told(broker: Broker) -> None:
    rule = broker.faults.on("Fetch", topic="orders").once().error("OFFSET_OUT_OF_RANGE")
    with consumer(broker) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=1)
    broker.faults.on("Fetch", topic="orders", name="again").once().error("OFFSET_OUT_OF_RANGE")
    with consumer(broker, auto_offset_reset="error") as client:
        assert first(assigned(broker, client)).error().name() == "_AUTO_OFFSET_RESET"


def test_a_topic_that_may_not_be_read_is_reported(broker: Broker) -> None:
    broker.faults.on("Fetch", topic="orders").error("TOPIC_AUTHORIZATION_FAILED")
    with consumer(broker) as client:
        assert first(assigned(broker, client)).error().name() == "TOPIC_AUTHORIZATION_FAILED"


def test_a_wrong_checksum_is_noticed_by_a_client_that_checks_and_read_again(broker: Broker) -> None:
    rule = broker.faults.on("Fetch", topic="orders").once().corrupt("crc")
    with consumer(broker, check_crcs=True) as client:
        found = first(assigned(broker, client))
        assert found.error().name() == "_BAD_MSG"
        assert first_value(client) == b"placed"
    rule.assert_hit(times=1)


def test_a_codec_that_does_not_exist_is_reported(broker: Broker) -> None:
    broker.faults.on("Fetch", topic="orders").once().corrupt("codec")
    with consumer(broker) as client:
        assert first(assigned(broker, client)).error().name() == "_NOT_IMPLEMENTED"


@pytest.mark.parametrize("what", ["correlation_id", "length", "garbage"])
def test_an_answer_that_is_no_answer_ends_the_connection_and_not_the_client(broker: Broker, what: Any) -> None:
    rule = broker.faults.on("Fetch", topic="orders").once().corrupt(what)
    # short: the client asks again, as often as it has to
    with consumer(broker, socket_timeout_ms=300) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=1)


def test_a_batch_that_is_cut_off_is_fetched_again(broker: Broker) -> None:
    rule = broker.faults.on("Fetch", topic="orders").once().corrupt("partial")
    with consumer(broker) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=1)


def test_a_fetch_without_the_records_that_there_are_is_repeated(broker: Broker) -> None:
    rule = broker.faults.on("Fetch", topic="orders").times(3).no_records()
    with consumer(broker) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=3)


@pytest.mark.parametrize("act", ["truncate", "rst", "trickle"])
def test_a_connection_that_breaks_is_made_again(broker: Broker, act: str) -> None:
    draft = broker.faults.on("Fetch", topic="orders").once()
    rule = {
        "truncate": lambda: draft.truncate(20),
        "rst": lambda: draft.disconnect(rst=True),
        "trickle": lambda: draft.trickle("2KB/s"),
    }[act]()
    with consumer(broker) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=1)


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "ApiVersions"])
def test_a_client_waits_for_an_answer_that_comes_late(broker: Broker, api: str) -> None:
    rule = broker.faults.on(api).once().delay("30ms", jitter="10ms", when="after")
    with consumer(broker) as client:
        assert first_value(assigned(broker, client, confluent.OFFSET_BEGINNING)) == b"placed"
    rule.assert_hit(times=1)


def test_a_broker_that_refuses_connections_is_tried_again(broker: Broker) -> None:
    rule = broker.faults.on("connect").times(2).refuse()
    with consumer(broker) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=2)


def test_a_broker_that_says_nothing_is_given_up_and_tried_again(broker: Broker) -> None:
    rule = broker.faults.on("connect").once().silent()
    # short: the client asks again, as often as it has to
    with consumer(broker, socket_timeout_ms=100, api_version_request_timeout_ms=100) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=1)


def test_a_partition_of_the_network_holds_a_client_until_it_heals(broker: Broker) -> None:
    with consumer(broker, client_id="app-1") as client, consumer(broker, client_id="other", group_id="x") as other:
        split = broker.faults.network_partition("app-*")
        assigned(broker, client)
        assert first_value(assigned(broker, other)) == b"placed"
        until(lambda: split.hits > 0)
        assert client.poll(0) is None
        split.remove()
        assert first_value(client) == b"placed"


def test_an_old_broker_answers_the_question_for_its_versions_in_version_0(broker: Broker) -> None:
    rule = broker.faults.on("ApiVersions", version=">=3").once().error("UNSUPPORTED_VERSION")
    asked = broker.faults.on("ApiVersions", version="0").delay(0)
    with consumer(broker) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=1)
    asked.assert_hit()


def test_a_python_function_takes_a_version_out_of_what_the_broker_tells(broker: Broker) -> None:
    def without_new_fetches(request: Any, answer: Any) -> Any:
        for one in answer.api_keys:
            one.max_version = 11 if one.api_key == 1 else one.max_version
        return answer

    broker.faults.on("ApiVersions").respond(without_new_fetches)
    newer = broker.faults.on("Fetch", version=">11").delay(0)
    with consumer(broker) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    assert newer.seen == 0


# --- metadata


@pytest.mark.parametrize("code", ["LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"])
def test_a_consumer_waits_for_a_topic_that_is_not_there_yet(broker: Broker, code: str) -> None:
    rule = broker.faults.on("Metadata", topic="orders").times(2).error(code)
    with consumer(broker, topic_metadata_refresh_interval_ms=50, allow_auto_create_topics=True) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=2)


def test_a_partition_without_a_leader_is_waited_for(broker: Broker) -> None:
    rule = broker.faults.on("Metadata", topic="orders", partition=0).times(2).error("LEADER_NOT_AVAILABLE")
    with consumer(broker, topic_metadata_refresh_interval_ms=50) as client:
        assert first_value(assigned(broker, client)) == b"placed"
    rule.assert_hit(times=2)


def test_a_topic_that_may_not_be_seen_is_reported_to_who_subscribes(broker: Broker) -> None:
    broker.faults.on("Metadata", topic="orders").error("TOPIC_AUTHORIZATION_FAILED")
    with consumer(broker) as client:
        client.subscribe(["orders"])
        assert first(client).error().name() == "TOPIC_AUTHORIZATION_FAILED"


# --- groups


GROUP_ERRORS = [
    ("SyncGroup", "REBALANCE_IN_PROGRESS"),
    ("SyncGroup", "UNKNOWN_MEMBER_ID"),
    ("SyncGroup", "ILLEGAL_GENERATION"),
    ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
    ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
]


@pytest.mark.parametrize(("api", "code"), GROUP_ERRORS)
def test_a_member_joins_its_group_in_spite_of_a_passing_error(broker: Broker, api: str, code: str) -> None:
    rule = broker.faults.on(api).once().error(code)
    session_timeout_ms = SOON_EXPELLED_MS if code == "UNKNOWN_MEMBER_ID" else 6_000
    with consumer(broker, coordinator_query_interval_ms=100, session_timeout_ms=session_timeout_ms) as client:
        client.subscribe(["orders"])
        assert first_value(client) == b"placed"
    rule.assert_hit(times=1)


def test_confluent_tells_that_it_cannot_read_committed_offsets(broker: Broker) -> None:
    broker.faults.on("OffsetFetch", group=GROUP).once().error("NOT_COORDINATOR")
    with consumer(broker) as client:
        client.subscribe(["orders"])
        assert first(client).error().name() == "NOT_COORDINATOR"


AIOKAFKA_ERRORS = [
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("JoinGroup", "COORDINATOR_NOT_AVAILABLE"),
    ("JoinGroup", "NOT_COORDINATOR"),
    ("JoinGroup", "UNKNOWN_MEMBER_ID"),
    ("SyncGroup", "REBALANCE_IN_PROGRESS"),
    ("OffsetFetch", "NOT_COORDINATOR"),
    ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("Metadata", "LEADER_NOT_AVAILABLE"),
    ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
]


@pytest.mark.parametrize(("api", "code"), AIOKAFKA_ERRORS)
async def test_aiokafka_joins_its_group_in_spite_of_a_passing_error(broker: Broker, api: str, code: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    rule = await broker.aio.faults.on(api).once().error(code)
    async with aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"{api}-{code}",
        auto_offset_reset="earliest",
        retry_backoff_ms=10,
    ) as client:
        assert (await client.getone()).value == b"placed"
    rule.assert_hit(times=1)


HEARTBEAT_ERRORS = ["REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "NOT_COORDINATOR"]


@pytest.mark.parametrize("code", HEARTBEAT_ERRORS)
def test_a_member_joins_again_when_its_heartbeat_fails(broker: Broker, code: str) -> None:
    session_timeout_ms = SOON_EXPELLED_MS if code == "UNKNOWN_MEMBER_ID" else 6_000
    with consumer(broker, coordinator_query_interval_ms=100, session_timeout_ms=session_timeout_ms) as client:
        client.subscribe(["orders"])
        assert first_value(client) == b"placed"
        joins = broker.faults.on(["JoinGroup", "FindCoordinator"]).delay(0)
        rule = broker.faults.on("Heartbeat", group=GROUP).once().error(code)
        until(lambda: (client.poll(0.02), joins.hits)[1])
        rule.assert_hit(times=1)


def test_a_storm_of_rebalances_makes_a_member_join_again_and_again(broker: Broker) -> None:
    with consumer(broker) as client:
        client.subscribe(["orders"])
        assert first_value(client) == b"placed"
        joins = broker.faults.on("JoinGroup", group=GROUP).delay(0)
        for number in (1, 2):  # two heartbeats that are answered at once are one join
            storm = broker.faults.rebalance_storm(GROUP, times=1)
            until(lambda number=number: (client.poll(0.02), joins.hits >= number)[1])
            storm.assert_hit(times=1)


@pytest.mark.parametrize("code", ["FENCED_INSTANCE_ID", "GROUP_MAX_SIZE_REACHED", "GROUP_AUTHORIZATION_FAILED"])
def test_a_member_that_may_not_join_is_told(broker: Broker, code: str) -> None:
    broker.faults.on("JoinGroup", group=GROUP).error(code)
    told: list[Any] = []
    with consumer(broker, group_instance_id="one") as client:
        client.subscribe(["orders"])

        def is_told() -> bool:
            try:
                found = client.poll(0.05)
            except confluent.KafkaException as error:
                told.append(error.args[0].name())
            else:
                told.extend([found.error().name()] if found is not None else [])
            return bool(told)

        until(is_told)
    assert told[0] == ("_FATAL" if code == "FENCED_INSTANCE_ID" else code) or code in told


@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_a_commit_is_tried_again_while_the_coordinator_moves(broker: Broker, code: str) -> None:
    with consumer(broker, coordinator_query_interval_ms=100) as client:
        client.subscribe(["orders"])
        assert first_value(client) == b"placed"
        rule = broker.faults.on("OffsetCommit", group=GROUP, topic="orders").once().error(code)
        until(lambda: _commits(client))
        rule.assert_hit(times=1)


def _commits(client: Any) -> bool:
    try:
        client.commit(offsets=[confluent.TopicPartition("orders", 0, 1)], asynchronous=False)
    except confluent.KafkaException:
        return False
    return True


@pytest.mark.parametrize("code", ["OFFSET_METADATA_TOO_LARGE", "GROUP_AUTHORIZATION_FAILED"])
def test_a_commit_that_is_refused_raises(broker: Broker, code: str) -> None:
    with consumer(broker) as client:
        client.subscribe(["orders"])
        assert first_value(client) == b"placed"
        broker.faults.on("OffsetCommit", topic="orders").once().error(code)
        with pytest.raises(confluent.KafkaException) as failed:
            client.commit(offsets=[confluent.TopicPartition("orders", 0, 1)], asynchronous=False)
        assert failed.value.args[0].name() == code


def test_a_held_join_keeps_a_member_out_until_it_is_released(broker: Broker) -> None:
    with broker.faults.on("JoinGroup", group=GROUP).once().hold() as held, consumer(broker) as client:
        client.subscribe(["orders"])
        until(lambda: (client.poll(0.01), held.blocked)[1])
        held.arrived()
        assert client.assignment() == []
        assert broker.faults.held() == [f"fault rule {held.name!r} holds {held.blocked[0]}"]
        held.release()
        assert first_value(client) == b"placed"


def test_kafka_python_starts_a_fetch_session_anew_when_the_broker_has_lost_it(broker: Broker) -> None:
    kafka = pytest.importorskip("kafka")
    client = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=20
    )
    try:
        client.assign([kafka.TopicPartition("orders", 0)])
        assert next(client).value == b"placed"
        for code in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"):
            rule = broker.faults.on("Fetch", version=">=7").once().error(code)
            until(lambda rule=rule: (client.poll(20), rule.hits)[1])
            broker.produce("orders", code.encode())
            assert next(client).value == code.encode()
    finally:
        client.close()


def test_kafka_python_resets_an_offset_that_is_out_of_range_in_its_session(broker: Broker) -> None:
    kafka = pytest.importorskip("kafka")
    client = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=20
    )
    try:
        client.assign([kafka.TopicPartition("orders", 0)])
        assert next(client).value == b"placed"
        rule = broker.faults.on("Fetch", topic="orders").skip(1).once().error("OFFSET_OUT_OF_RANGE")
        assert next(client).value == b"placed"
        rule.assert_hit(times=1)
    finally:
        client.close()


async def test_aiokafka_fetches_again_after_errors_and_resets_its_offset(broker: Broker) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    faults = broker.aio.faults
    await faults.on("Fetch", topic="orders").once().error("NOT_LEADER_OR_FOLLOWER")
    await faults.on("Fetch", topic="orders").once().error("OFFSET_OUT_OF_RANGE")
    await faults.on("JoinGroup", group=GROUP).once().error("COORDINATOR_LOAD_IN_PROGRESS")
    async with aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
        auto_offset_reset="earliest",
        retry_backoff_ms=10,
    ) as client:
        assert (await client.getone()).value == b"placed"
    await faults.assert_all_hit()
