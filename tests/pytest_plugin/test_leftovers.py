"""What is left at the end of a test is said, unasked."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("scope", ["session", "function"])
def test_errors_in_the_brokers_log_are_a_warning_that_points_to_the_test(run_pytest, scope: str):
    text = """
    import logging

    log = logging.getLogger("kmini.broker")

    def test_errors(kafka_broker):
        for disk in range(5):
            log.error("disk %d is full", disk)

    def test_an_exception(kafka_broker):
        try:
            1 / 0
        except ZeroDivisionError:
            log.exception("compaction failed")

    def test_none(kafka_broker):
        log.warning("a peer is odd")
    """
    result = run_pytest(text, "--kafka-scope", scope)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "*.py:5: KafkaTestWarning: the broker logged errors: disk 0 is full; *disk 2 is full; and 2 more",
            "*.py:9: KafkaTestWarning: *: compaction failed: ZeroDivisionError('division by zero')",
        ]
    )


def test_the_warning_can_be_made_an_error(pytester: pytest.Pytester):
    """In a process of its own, as the class of the warning is looked up by its name."""
    pytester.makepyfile(
        """
        import logging

        def test_errors(kafka_broker):
            logging.getLogger("kmini.broker").error("disk is full")

        def test_next(kafka_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-W", "error::kmini.KafkaTestWarning", "--kafka-scope=session")
    result.assert_outcomes(passed=2, errors=1)


def test_rules_that_never_acted_and_holds_are_told(run_pytest):
    text = """
    from kmini.testing import Wire
    from kmini.protocol.messages.list_groups import ListGroupsRequest

    open_wires = []

    def test_never(kafka_faults):
        kafka_faults.on("Produce", topic="orders", name="lost").once().error("NOT_LEADER_OR_FOLLOWER")

    def test_held(kafka_broker, kafka_faults):
        wire = Wire(kafka_broker.bootstrap_servers)
        open_wires.append(wire)
        held = kafka_faults.on("ListGroups", name="gate").hold()
        wire.send(ListGroupsRequest(), 0)
        held.arrived()

    def test_acted(kafka_broker, kafka_faults):
        open_wires.pop().close()
        kafka_faults.on("ListGroups").once().error("COORDINATOR_NOT_AVAILABLE")
        with Wire(kafka_broker.bootstrap_servers) as wire:
            assert wire.ask(ListGroupsRequest()).error_code == 15

    def test_full_disk(kafka_broker, kafka_faults):
        kafka_broker.create_topic("orders")
        kafka_faults.disk_full("orders")
        try:
            kafka_broker.produce("orders", b"one")
        except Exception:
            pass
    """
    result = run_pytest(text)
    result.assert_outcomes(passed=4)
    warned = [line for line in result.outlines if "KafkaTestWarning" in line]
    assert len(warned) == 2, warned
    assert "fault rule 'lost' never acted: no request that it is about came" in warned[0]
    assert "fault rule 'gate' holds " in warned[1]


def test_a_rule_without_an_act_is_told(run_pytest):
    text = """
    def test_begun(kafka_broker, kafka_faults):
        kafka_faults.on("Produce", topic="orders").once()

    def test_base(kafka_broker, kafka_faults):
        produces = kafka_faults.on("Produce")
        produces.times(2).error("NOT_LEADER_OR_FOLLOWER").remove()
        produces.once().disconnect().remove()
    """
    result = run_pytest(text)
    result.assert_outcomes(passed=2)
    (warned,) = [line for line in result.outlines if "KafkaTestWarning" in line]
    assert "test_a_rule_without_an_act_is_told.py:1: " in warned
    assert "faults.on('Produce', topic='orders') is not in force: it does not say what it does" in warned


def test_a_rule_that_is_not_awaited_is_told(run_pytest):
    text = r"""
    import pytest

    async def test_forgotten(async_kafka_broker):
        rule = async_kafka_broker.faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER")
        with pytest.raises(AttributeError, match=r"await faults\.on\('Produce'\)\.error"):
            rule.assert_hit()
        async_kafka_broker.faults.produce_succeeds_but_answer_is_lost("orders")

    async def test_awaited(async_kafka_broker):
        await (await async_kafka_broker.faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER")).remove()
    """
    options = ("-o", "asyncio_mode=auto", "-W", "ignore::RuntimeWarning")
    result = run_pytest(text, *options, plugins=("asyncio",))
    result.assert_outcomes(passed=2)
    warned = [line for line in result.outlines if "KafkaTestWarning" in line]
    assert len(warned) == 2
    assert all("is not in force: it was not awaited" in line for line in warned)


def test_a_failed_test_is_not_told_that_its_rules_never_acted(run_pytest):
    text = """
    def test_failed(kafka_broker, kafka_faults):
        kafka_faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER")
        kafka_broker.topic("orders").wait_for(1, timeout_ms=1)
    """
    result = run_pytest(text)
    result.assert_outcomes(failed=1)
    assert "KafkaTestWarning" not in result.stdout.str()
    assert "never acted" in result.stdout.str()


def test_a_stopped_broker_has_nothing_to_tell(run_pytest):
    text = """
    def test_stopped(kafka_broker, kafka_faults):
        kafka_faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER")
        kafka_broker.stop()
    """
    result = run_pytest(text, "--kafka-scope=session")
    result.assert_outcomes(passed=1)
    assert "KafkaTestWarning" not in result.stdout.str()


CLIENTS = """
import pytest
from kmini.testing import Wire
from kmini.protocol.messages.list_groups import ListGroupsRequest
from support.until import until

wires = []

def connect(broker, name):
    wires.append(Wire(broker.bootstrap_servers, client_id=name))
    wires[-1].ask(ListGroupsRequest())

@pytest.fixture(scope="session", autouse=True)
def closes():
    yield
    for wire in wires:
        wire.close()

@pytest.mark.parametrize("number", range(2))
def test_a_client_that_is_never_closed(kafka_broker, number):
    connect(kafka_broker, "app-1")
    connect(kafka_broker, f"test-{number}")

def test_a_client_that_is_closed(kafka_broker):
    connect(kafka_broker, "app-2")
    wires.pop().close()
    until(lambda: "app-2" not in {client.client_id for client in kafka_broker.clients()})

def test_another(kafka_broker):
    connect(kafka_broker, "app-2")
"""


def test_a_client_that_stays_connected_from_test_to_test_is_told(run_pytest):
    result = run_pytest(CLIENTS, "--kafka-scope=session")
    result.assert_outcomes(passed=4)
    warned = [line for line in result.outlines if "KafkaTestWarning" in line]
    assert len(warned) == 1, warned
    assert "a client 'app-1' is connected at the end, as one was at the end of test_a_client" in warned[0]
    assert "::test_a_client_that_is_never_closed[0]: close it there" in warned[0]


def test_a_client_that_the_ini_file_keeps_is_not_told(run_pytest):
    result = run_pytest(CLIENTS, "--kafka-scope=session", "-o", "kafka_keep=app-*")
    result.assert_outcomes(passed=4)
    assert "KafkaTestWarning" not in result.stdout.str()


def test_the_broker_of_the_session_is_that_of_its_tests(run_pytest):
    text = """
    import pytest

    @pytest.fixture(scope="session")
    def service(kafka_broker_session):
        return kafka_broker_session.bootstrap_servers

    @pytest.mark.parametrize("number", range(2))
    def test_one(service, kafka_broker, kafka_topic, number):
        assert service == kafka_broker.bootstrap_servers
        assert kafka_broker.topics() == [kafka_topic]
    """
    run_pytest(text, "--kafka-scope=session").assert_outcomes(passed=2)


def test_a_broker_that_its_test_has_stopped_is_replaced(run_pytest):
    text = """
    def test_stop(kafka_broker):
        kafka_broker.stop()

    def test_close(kafka_broker, kafka_topic):
        kafka_broker.close()

    def test_restart(kafka_broker, kafka_topic):
        kafka_broker.stop()
        kafka_broker.start()

    def test_next(kafka_broker, kafka_topic):
        assert kafka_broker.topics() == [kafka_topic]

    def test_kill(kafka_cluster):
        kafka_cluster.kill(1)

    def test_cluster(kafka_cluster):
        assert kafka_cluster.brokers() == [1, 2, 3]
    """
    run_pytest(text, "--kafka-scope=session").assert_outcomes(passed=6)


@pytest.mark.parametrize("scope", ["session", "function"])
def test_the_end_of_a_test_does_not_wait_for_clients_that_poll(run_pytest, scope: str):
    """A consumer in a thread polls on, and its fetches would be answered in an hour."""
    pytest.importorskip("confluent_kafka")
    text = """
    import threading

    from confluent_kafka import Consumer

    ended = threading.Event()

    def poll(servers, topic, asked):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "polls", "log_level": 0})
        consumer.subscribe([topic])
        while not ended.is_set():
            consumer.poll(0.1)
            asked.set()
        consumer.close()

    def test_polls(kafka_broker, kafka_topic):
        kafka_broker.faults.on("Fetch").delay("1h")
        asked = threading.Event()
        threads.append(threading.Thread(target=poll, args=(kafka_broker.bootstrap_servers, kafka_topic, asked)))
        threads[0].start()
        assert asked.wait(60)
        kafka_broker.requests.wait_for("JoinGroup", group="polls", timeout_ms=60_000)

    threads = []

    def test_next(kafka_broker):
        assert threads[0].is_alive()
        ended.set()
        threads[0].join()
    """
    run_pytest(text, "--kafka-scope", scope).assert_outcomes(passed=2)
