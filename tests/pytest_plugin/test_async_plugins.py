"""The fixtures, in a pytest of their own under each plugin for asynchronous tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASYNC_TESTS = """
import pytest

{mark}

async def write(broker):
    from aiokafka import AIOKafkaProducer
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"placed", key=b"42")

async def test_an_order_is_announced(async_kafka_broker):
    await write(async_kafka_broker)
    (record,) = await async_kafka_broker.wait_for_records("orders", 1)
    assert record.key == b"42"

async def test_both_fixtures_are_one_broker(async_kafka_broker, kafka_broker):
    assert await async_kafka_broker.topics() == []
    await async_kafka_broker.produce("orders", b"one")
    assert len(kafka_broker.records("orders")) == 1
    with pytest.raises(RuntimeError, match=r"await broker\\.aio\\.wait_for_records"):
        kafka_broker.wait_for_records("orders", 2)
"""

ON_TRIO = """
import pytest
from kmini import Broker

@pytest.fixture
def anyio_backend():
    return "trio"

@pytest.mark.anyio
async def test_trio_is_refused_in_a_sentence(async_kafka_broker):
    with pytest.raises(RuntimeError, match="need asyncio, and this is trio"):
        await async_kafka_broker.topics()
    with pytest.raises(RuntimeError, match="need asyncio, and this is trio"):
        async with Broker():
            pass
"""

UNMARKED = ASYNC_TESTS.format(mark="")
MARKED_FOR_ASYNCIO = ASYNC_TESTS.format(mark="pytestmark = pytest.mark.asyncio")
MARKED_FOR_ANYIO = ASYNC_TESTS.format(
    mark="""
pytestmark = pytest.mark.anyio

@pytest.fixture(params=["asyncio", ("asyncio", {"use_uvloop": True})], ids=["asyncio", "uvloop"])
def anyio_backend(request):
    return request.param
"""
)


@pytest.mark.parametrize(
    ("arguments", "files", "passes"),
    [
        (["-o", "asyncio_mode=strict"], [MARKED_FOR_ASYNCIO, MARKED_FOR_ANYIO], 2 + 4),
        (["-o", "asyncio_mode=auto"], [UNMARKED], 2),
        (["-p", "no:asyncio"], [MARKED_FOR_ANYIO, ON_TRIO], 4 + 1),
    ],
    ids=["pytest-asyncio strict beside anyio", "pytest-asyncio auto", "anyio alone"],
)
def test_the_fixture_works_under_every_plugin_for_asynchronous_tests_and_refuses_trio(
    tmp_path: Path, arguments: list[str], files: list[str], passes: int
) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"test_inner_{number}.py").write_text(text)
    finished = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-m", "pytest", "-q", "-p", "no:randomly", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    told = finished.stdout + finished.stderr
    assert f"{passes} passed in" in told, told
