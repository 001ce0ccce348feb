"""What pytest shows of a failed test: its line and the sentence of kmini, and no frame of ours (embed/handle.py)."""

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
"""


def test_a_failed_test_shows_the_line_of_the_test_only(run_pytest):
    result = run_pytest(FAILING, "-o", "asyncio_mode=auto", plugins=("asyncio",))
    result.assert_outcomes(failed=4)
    told = result.stdout.str()
    for line in (
        '>       with kafka_broker.topic("orders").expect(timeout_ms=1):',
        '>       kafka_broker.topic("orders").wait_for(1, timeout_ms=1)',
        '>       await async_kafka_broker.topic("orders").wait_for(1, timeout_ms=1)',
        '>       kafka_broker.produce("orders", "text")',
    ):
        assert line in told
    assert "RecordsMissing: there is no topic orders; there are none (after 1 ms)" in told
    failures = told.partition("= FAILURES =")[2].partition("short test summary")[0]
    for inside in ("loop_thread.py", "handle.py", "expectation.py", "argument_checks.py"):
        assert inside not in failures
