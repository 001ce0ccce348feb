"""Tests against a Kafka that runs elsewhere, here kmini in the process of the tests: names, skips, the closing line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kmini import Broker
from support.own_threads import own_threads, until_no_thread_is_new


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def own_topics(broker: Broker) -> list[str]:
    return [name for name in broker.topics() if not name.startswith("__")]


SUITE = """
import pytest

def test_records(kafka_broker, kafka_topic, kafka_group_id, kafka_prefix, kafka_bootstrap_servers):
    assert kafka_topic.startswith(kafka_prefix) and kafka_prefix.startswith("kmini-")
    assert kafka_group_id.startswith(kafka_prefix)
    kafka_broker.produce(kafka_topic, b"one")
    assert [record.value for record in kafka_broker.wait_for_records(kafka_topic, 1)] == [b"one"]
    assert kafka_bootstrap_servers == kafka_broker.bootstrap_servers
    assert kafka_broker.topics() == [kafka_topic]

@pytest.mark.kafka(topics={"orders": 3})
def test_topics_of_the_marker(kafka_broker, kafka_prefix):
    assert kafka_broker.topics() == ["orders"]
    assert kafka_broker.offsets("orders", 2).high_watermark == 0

def test_clock(kafka_clock):
    raise AssertionError

def test_clock_of_the_broker(kafka_broker):
    kafka_broker.clock.advance("7d")
    raise AssertionError

async def test_clock_of_the_broker_awaited(async_kafka_broker):
    await async_kafka_broker.clock.advance("7d")
    raise AssertionError

def test_cluster(kafka_cluster):
    raise AssertionError

@pytest.mark.kafka(config={"num.partitions": 2})
def test_config(kafka_broker):
    raise AssertionError

@pytest.mark.kafka(config={"num.partitions": 1, "log.retention.hours": "168", "auto.create.topics.enable": True})
def test_config_that_is_in_force_there(kafka_broker):
    pass

@pytest.mark.kafka(as_version="3.9")
def test_release(kafka_broker):
    raise AssertionError

@pytest.mark.kafka(as_version="4.3")
def test_release_that_is_there(kafka_broker):
    pass

def test_without_kafka():
    pass
"""


def test_what_needs_kmini_is_skipped_in_a_sentence_and_counted_at_the_end(run_pytest, elsewhere: Broker) -> None:
    address = elsewhere.bootstrap_servers
    arguments = ("--kafka-bootstrap", address, "-rs", "-o", "asyncio_mode=auto")
    result = run_pytest(SUITE, *arguments, plugins=("asyncio",))
    result.assert_outcomes(passed=5, skipped=6)
    reasons = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert len(reasons) == 6
    for what in (
        "config of the marker: num.partitions is 1, not 2",
        "as_version of the marker: 3.9",
        "cluster of the test's own",
        "clock",
        "clock.advance",
    ):
        assert any(f"needs kmini: {what} ({address} is kmini as Kafka 4.3)" in line for line in reasons), what
    assert all("test_what_needs" in line for line in reasons), "a skip is located in its test"
    told = "kafka: 10 tests on kmini as Kafka 4.3, 6 skipped (as_version 1, clock 3, cluster 1, config 1)"
    assert told in result.outlines
    assert own_topics(elsewhere) == []


def test_a_topic_of_the_marker_that_exists_there_is_left_alone_and_fails_the_test(
    run_pytest, elsewhere: Broker
) -> None:
    elsewhere.create_topic("payments")
    elsewhere.produce("payments", b"of another user")
    text = """
    import pytest

    @pytest.mark.kafka(topics={"payments": 3})
    def test_payments(kafka_broker):
        raise AssertionError
    """
    result = run_pytest(text, f"--kafka-bootstrap={elsewhere.bootstrap_servers}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*topic payments exists already: another test, another worker*kafka_prefix*"])
    assert [record.value for record in elsewhere.records("payments")] == [b"of another user"]
    elsewhere.delete_topic("payments")


def test_settings_of_every_broker_that_are_not_in_force_there_are_told_at_the_end(
    run_pytest, elsewhere: Broker
) -> None:
    conftest = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_options():
        return {"config": {"log.retention.hours": 24, "num.partitions": 1, "no.such.setting": "x"}}
    """
    text = """
    import pytest

    @pytest.mark.parametrize("number", range(2))
    def test_it(kafka_broker, number): pass
    """
    arguments = ("--kafka-bootstrap", elsewhere.bootstrap_servers, "-o", "kafka_config=num.io.threads=3")
    result = run_pytest(text, *arguments, conftest=conftest)
    result.assert_outcomes(passed=2)
    told = [line for line in result.outlines if line.startswith("kafka:")]
    assert told == [
        "kafka: 2 tests on kmini as Kafka 4.3",
        "kafka: settings of every broker are not in force on kmini as Kafka 4.3: log.retention.hours is 168, not 24, "
        "no.such.setting is unknown, not x, num.io.threads is 8, not 3",
    ]


def test_the_workers_of_a_run_have_names_of_their_own(run_pytest, elsewhere: Broker) -> None:
    text = """
    import pytest

    @pytest.mark.parametrize("number", range(6))
    def test_names(kafka_broker, kafka_topic, kafka_prefix, worker_id, number):
        assert f"-{worker_id}-" in kafka_prefix
        kafka_broker.create_topic(kafka_prefix + "orders")
        assert sorted(kafka_broker.topics()) == sorted([kafka_topic, kafka_prefix + "orders"])
    """
    result = run_pytest(text, "--kafka-bootstrap", elsewhere.bootstrap_servers, "-n", "2", plugins=("xdist",))
    result.assert_outcomes(passed=6)
    assert "kafka: 6 tests on kmini as Kafka 4.3" in result.outlines
    assert own_topics(elsewhere) == []


def test_the_seed_is_planted_for_each_test(run_pytest, elsewhere: Broker) -> None:
    conftest = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_seed():
        return lambda broker: broker.produce("prices", b"100")

    @pytest.fixture(scope="session")
    def kafka_options():
        return {"topics": {"orders": 2}}
    """
    text = """
    import pytest

    @pytest.mark.parametrize("number", range(2))
    def test_prices(kafka_broker, number):
        assert kafka_broker.topics() == ["orders", "prices"]
        assert len(kafka_broker.records("prices")) == 1
        kafka_broker.produce("prices", b"200")
    """
    run_pytest(text, "--kafka-bootstrap", elsewhere.bootstrap_servers, conftest=conftest).assert_outcomes(passed=2)
    assert own_topics(elsewhere) == []


def test_a_wrong_address_in_the_environment_is_a_usage_error_of_the_tests_that_need_it(
    run_pytest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "host:x")
    result = run_pytest("def test_it(kafka_broker): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*UsageError: KAFKA_BOOTSTRAP_SERVERS: 'host:x' is no address: host:port was*"])


SHARED = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_names(kafka_broker, kafka_topic, kafka_prefix, number):
    assert kafka_broker.topics() == [kafka_topic]
    kafka_broker.produce(kafka_topic, b"one")
    print("ADDRESS", kafka_broker.bootstrap_servers)

@pytest.mark.parametrize("number", range(2))
def test_a_clock_needs_a_broker_of_its_own(kafka_broker, kafka_clock, kafka_prefix, number):
    assert kafka_prefix == ""
    kafka_clock.advance("7d")

@pytest.mark.kafka(config={"num.partitions": 2})
def test_settings_do(kafka_broker):
    kafka_broker.clock.advance("7d")

def test_a_cluster_does(kafka_cluster):
    assert len(kafka_cluster.brokers()) == 3

def test_what_changes_the_shared_one_fails(kafka_broker):
    kafka_broker.clock.advance("7d")
"""


def test_one_broker_serves_all_workers(run_pytest) -> None:
    result = run_pytest(SHARED, "-n", "2", "--kafka-shared", "-rP", plugins=("xdist",))
    result.assert_outcomes(passed=10, failed=1)
    assert len({line for line in result.outlines if line.startswith("ADDRESS")}) == 1
    result.stdout.fnmatch_lines(["the broker that all workers share (--kafka-shared) refuses clock.advance: mark*"])


def test_without_workers_there_is_nothing_to_share(run_pytest) -> None:
    result = run_pytest("def test_it(kafka_broker, kafka_prefix): assert kafka_prefix == ''", "--kafka-shared")
    result.assert_outcomes(passed=1)


def test_the_shared_broker_ends_with_the_run(run_pytest) -> None:
    before = own_threads()
    run_pytest("def test_it(kafka_topic): pass", "-n", "1", "--kafka-shared", plugins=("xdist",))
    until_no_thread_is_new(before)


def test_a_failed_test_shows_what_the_other_kafka_tells(run_pytest, elsewhere: Broker) -> None:
    result = run_pytest(
        """
        import pytest

        def test_waits_in_vain(kafka_broker, kafka_topic):
            kafka_broker.produce(kafka_topic, b"placed", key=b"42")
            kafka_broker.topic(kafka_topic).wait_for(2, timeout_ms=1)

        def test_of_the_awaitable_broker(async_kafka_broker, kafka_topic):
            assert False
        """,
        f"--kafka-bootstrap={elsewhere.bootstrap_servers}",
    )
    result.assert_outcomes(failed=2)
    server = "kmini as Kafka 4.3"
    result.stdout.fnmatch_lines(
        [
            f"*- kmini: {server} 127.0.0.1:* -*",
            "waited  topic('kmini-*-test_waits_in_vain-*').wait_for(2, timeout_ms=1):",
            "        kmini-* holds 1 of 2 records after 1 ms: *b'42': b'placed'*",
            "topics  kmini-*: 1 partition, 1 record, p0 start 0, end 1, last p0@0 key=b'42' value=b'placed'",
            f"unknown requests, *: {server} does not tell them",
            f"*- kmini: {server} 127.0.0.1:* -*",
            "topics  kmini-*: 1 partition, 0 records",
        ]
    )
    assert result.stdout.str().count("waited  ") == 1
