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

ANYIO_BACKEND = """
@pytest.fixture(params=["asyncio", ("asyncio", {"use_uvloop": True})], ids=["asyncio", "uvloop"])
def anyio_backend(request):
    return request.param
"""


def run_pytest(directory: Path, tests: str, *arguments: str) -> str:
    (directory / "test_inner.py").write_text(tests)
    finished = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-m", "pytest", "-q", "-p", "no:randomly", *arguments],
        cwd=directory,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return finished.stdout + finished.stderr


@pytest.mark.parametrize(
    ("mark", "arguments", "passes"),
    [
        ("pytestmark = pytest.mark.asyncio", ["-o", "asyncio_mode=strict"], 2),
        ("", ["-o", "asyncio_mode=auto"], 2),
        ("pytestmark = pytest.mark.anyio" + ANYIO_BACKEND, ["-p", "no:asyncio"], 4),
        ("pytestmark = pytest.mark.anyio" + ANYIO_BACKEND, ["-o", "asyncio_mode=strict"], 4),
    ],
    ids=["pytest-asyncio strict", "pytest-asyncio auto", "anyio", "anyio beside pytest-asyncio"],
)
def test_the_fixture_works_under_every_plugin_for_asynchronous_tests(
    tmp_path: Path, mark: str, arguments: list[str], passes: int
) -> None:
    told = run_pytest(tmp_path, ASYNC_TESTS.format(mark=mark), *arguments)
    assert f"{passes} passed in" in told, told


def test_on_trio_a_sentence_refuses(tmp_path: Path) -> None:
    pytest.importorskip("trio")
    told = run_pytest(tmp_path, ON_TRIO, "-p", "no:asyncio")
    assert "1 passed in" in told, told
