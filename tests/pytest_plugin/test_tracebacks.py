"""What pytest shows of a failed test: its line and the sentence of kmini, and no frame of ours (testkit/handle.py)."""

import re
import sys

import pytest

FAILING = """
def test_expect(kafka_broker):
    with kafka_broker.topic("orders").expect(timeout_ms=1):
        pass

def test_wait(kafka_broker):
    kafka_broker.topic("orders").wait_for(1, timeout_ms=1)

async def test_await(async_kafka_broker):
    await async_kafka_broker.topic("orders").wait_for(1, timeout_ms=1)

def test_argument(kafka_broker):
    kafka_broker.produce("orders", "text")

def test_snapshot(kafka_broker):
    kafka_broker.restore("none")

def test_api(kafka_broker):
    kafka_broker.requests.assert_some("produce")

def test_rule(kafka_faults):
    kafka_faults.on("Produce").once().error("NOT_LEADER")

async def test_awaited_rule(async_kafka_broker):
    await async_kafka_broker.faults.on("Heartbeat", topic="orders").drop()

def test_order_of_a_rule(kafka_faults):
    kafka_faults.on("Produce").error("NOT_LEADER_OR_FOLLOWER").once()

def test_hit(kafka_faults):
    kafka_faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER").assert_hit()

def test_stopped(kafka_broker):
    kafka_broker.stop()
    kafka_broker.topic("orders").records()

def test_predicate(kafka_broker):
    kafka_broker.topic("orders").produce(b'{"state": 1}')
    kafka_broker.topic("orders").wait_for(lambda record: record.json()["price"])
"""


def test_a_failed_test_shows_the_line_of_the_test_only(run_pytest):
    result = run_pytest(FAILING, "-o", "asyncio_mode=auto", plugins=("asyncio",))
    result.assert_outcomes(failed=12)
    told = result.stdout.str()
    for line in (
        '>       with kafka_broker.topic("orders").expect(timeout_ms=1):',
        '>       kafka_broker.topic("orders").wait_for(1, timeout_ms=1)',
        '>       await async_kafka_broker.topic("orders").wait_for(1, timeout_ms=1)',
        '>       kafka_broker.produce("orders", "text")',
        '>       kafka_broker.restore("none")',
        '>       kafka_broker.requests.assert_some("produce")',
        '>       kafka_faults.on("Produce").once().error("NOT_LEADER")',
        '>       await async_kafka_broker.faults.on("Heartbeat", topic="orders").drop()',
        '>       kafka_faults.on("Produce").error("NOT_LEADER_OR_FOLLOWER").once()',
        '>       kafka_faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER").assert_hit()',
        '>       kafka_broker.topic("orders").records()',
        '>       kafka_broker.topic("orders").wait_for(lambda record: record.json()["price"])',
    ):
        assert line in told
    assert "RecordsMissing: there is no topic orders; there are none (after 1 ms)" in told
    assert "the rule is in force already; .once(...) comes before what it does" in told
    if sys.version_info >= (3, 11):
        assert """for the record at offset 0 of orders-0: b'{"state": 1}'""" in told
    failures = told.partition("= FAILURES =")[2].partition("short test summary")[0]
    places = re.findall(r"^(\S+\.py):\d+: ", failures, re.MULTILINE)
    assert {*places} == {"test_a_failed_test_shows_the_line_of_the_test_only.py"}


def test_the_assertions_of_kmini_are_not_rewritten_as_those_of_plugins_are(pytester: pytest.Pytester):
    """pytest marks every package of a distribution that has a plugin, where it is not installed for editing."""
    pytester.makepyfile(
        marks="""
        def pytest_addoption(parser, pluginmanager):
            pluginmanager.rewrite_hook.mark_rewrite("kmini")
        """,
        test_it="""
        def test_it(kafka_broker):
            import kmini.testkit.journal_handle as module
            assert "Rewriting" not in type(module.__loader__).__name__
        """,
    )
    ignored = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    pytester.runpytest_subprocess("-p", "marks", *ignored).assert_outcomes(passed=1)
