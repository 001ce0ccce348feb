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
