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

    def test_never(kafka_faults):
        kafka_faults.on("Produce", topic="orders", name="lost").once().error("NOT_LEADER_OR_FOLLOWER")

    def test_held(kafka_broker, kafka_faults):
        wire = Wire(kafka_broker.bootstrap_servers)
        held = kafka_faults.on("ListGroups", name="gate").hold()
        wire.send(ListGroupsRequest(), 0)
        held.arrived()
        wire.close()

    def test_acted(kafka_broker, kafka_faults):
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


def test_a_stopped_broker_has_nothing_to_tell(run_pytest):
    text = """
    def test_stopped(kafka_broker, kafka_faults):
        kafka_faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER")
        kafka_broker.stop()
    """
    result = run_pytest(text, "--kafka-scope=session")
    result.assert_outcomes(passed=1)
    assert "KafkaTestWarning" not in result.stdout.str()
