"""Every public name, used in every way a program can, by `support/every_name.py`, alone and in asynchronous tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = TESTS / "support" / "every_name.py"

INNER = """
from support import every_name
import pytest

{mark}

@pytest.fixture(autouse=True)
def nothing_is_left():
    with every_name.leaves_nothing():
        yield

async def test_what_blocks_works_inside_a_running_loop():
    await every_name.leaves_no_task(every_name.block_inside_a_loop)

async def test_what_is_awaited_works():
    await every_name.leaves_no_task(every_name.await_all)

async def test_the_fixtures_work(kafka_broker, async_kafka_broker):
    await async_kafka_broker.produce("orders", b"one")
    assert kafka_broker.wait_for_records("orders", 1) == await async_kafka_broker.wait_for_records("orders", 1)
    with pytest.raises(RuntimeError, match=every_name.SENTENCE):
        kafka_broker.wait_for_records("orders", 2)
"""

WARNINGS = ["-W", "error::ResourceWarning"]
ANYIO = "pytestmark = pytest.mark.anyio\nanyio_backend = pytest.fixture(lambda: 'asyncio')"
STRICT = ["-o", "asyncio_mode=strict", "-o", "asyncio_default_fixture_loop_scope=function"]


def test_every_public_name_works_in_every_way_and_leaves_nothing() -> None:
    finished = subprocess.run(
        [sys.executable, *WARNINGS, str(SCRIPT)], capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.count("every name works, and nothing is left\n") == 4
    assert finished.stderr == ""


def test_every_public_name_works_in_asynchronous_tests(tmp_path: Path) -> None:
    (tmp_path / "test_asyncio.py").write_text(INNER.format(mark="pytestmark = pytest.mark.asyncio"))
    (tmp_path / "test_anyio.py").write_text(INNER.format(mark=ANYIO))
    kminis = ["-W", "error:::kmini", "-W", "error::pytest.PytestUnraisableExceptionWarning"]
    finished = subprocess.run(
        [sys.executable, *WARNINGS, "-m", "pytest", "-q", "-p", "no:randomly", *WARNINGS, *kminis, *STRICT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    told = finished.stdout + finished.stderr
    assert "6 passed in" in told, told
    assert "warning" not in told, told
