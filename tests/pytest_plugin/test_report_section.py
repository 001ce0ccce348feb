"""A failed test shows the failure report of its broker."""

from __future__ import annotations

import pytest

FAILING = """
    import pytest

    def test_waits_in_vain(kafka_broker):
        kafka_broker.create_topic("orders")
        kafka_broker.produce("order", b"placed")
        assert kafka_broker.records("orders") == [1]

    def test_passes(kafka_broker):
        pass

    def test_has_no_broker():
        assert False

    @pytest.fixture
    def service(kafka_broker):
        raise RuntimeError(f"the service of {kafka_broker.bootstrap_servers} does not start")

    def test_of_a_service(service):
        pass
"""


@pytest.mark.parametrize("scope", ["session", "function"])
def test_the_report_of_a_failed_test_ends_with_what_its_broker_knows(run_pytest, scope: str):
    result = run_pytest(FAILING, "--kafka-scope", scope)
    result.assert_outcomes(passed=1, failed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*test_of_a_service*",
            "*- kmini: broker 127.0.0.1:* -*",
            "LIKELY  no client sent a request to 127.0.0.1:*: check bootstrap.servers of your*",
            "*test_waits_in_vain*",
            "*- kmini: broker 127.0.0.1:* -*",
            "LIKELY  the records went to another topic: 'order' has 1 record; nothing was ever written to*",
            "topics  order: 1 partition, 1 record, *value=b'placed'",
            "clock   not moved; requests: 0, all kept",
        ]
    )
    assert result.stdout.str().count("kmini: broker") == 2


def test_a_worker_of_xdist_sends_the_section(run_pytest):
    result = run_pytest(FAILING, "-n", "1", plugins=("xdist",))
    assert result.stdout.str().count("- kmini: broker") == 2


def test_the_awaitable_broker_and_a_cluster_are_shown_and_a_report_that_fails_hides_nothing(run_pytest):
    text = """
    import kmini

    async def report(self):
        raise OSError("disk is full")

    def test_awaits(async_kafka_broker):
        assert async_kafka_broker.bootstrap_servers is None

    def test_of_a_cluster(kafka_cluster, monkeypatch):
        monkeypatch.setattr(kmini.Cluster, "report", lambda self: 1 / 0)
        assert kafka_cluster is None

    def test_of_a_stopped_broker(kafka_broker):
        kafka_broker.stop()
        assert kafka_broker is None
    """
    result = run_pytest(text)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*- kmini: broker 127.0.0.1:* -*",
            "LIKELY  no client sent a request to *",
            "*- kmini: cluster 127.0.0.1:* -*",
            "the failure report failed, too: ZeroDivisionError('division by zero')",
        ]
    )
    assert result.stdout.str().count("- kmini: ") == 2


def test_a_test_that_has_ended_keeps_no_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import gc, weakref

        seen = []

        def test_with_a_broker(kafka_broker):
            seen.append(weakref.ref(kafka_broker))

        def test_after_it():
            gc.collect()
            assert seen[0]() is None
        """
    )
    pytester.runpytest("-p", "no:randomly").assert_outcomes(passed=2)
