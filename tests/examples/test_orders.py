"""examples/orders: the suite passes as its page says, and turns red when one of its services is broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from support.control_api import control_api

pytest.importorskip("aiokafka")
pytest.importorskip("confluent_kafka")

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "orders"
A_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def run_suite(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest there, as a user does: with the configuration of that folder and the plugins that are installed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The example in a folder of its own, as after copying it."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.mark.soak
def test_the_suite_passes_in_random_order_and_in_two_processes(copy: Path) -> None:
    count = sum(len(A_TEST.findall(path.read_text())) for path in copy.glob("test_*.py"))
    assert count >= 15
    finished = run_suite(copy, "-n", "2")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"{count} passed" in finished.stdout, finished.stdout


ONE_EACH = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
"""What the tests of the suite about failover ask of their cluster."""


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_suite_passes_on_a_broker_in_another_process_and_on_a_cluster(copy: Path, brokers: int) -> None:
    of_cluster = len(A_TEST.findall((copy / "test_failover.py").read_text()))
    count = sum(len(A_TEST.findall(path.read_text())) for path in copy.glob("test_*.py"))
    passed = of_cluster if brokers > 1 else count - of_cluster
    with control_api(brokers, topics={}, config=ONE_EACH if brokers > 1 else None) as server:
        finished = run_suite(copy, "-rs", "--kafka-bootstrap", server.url)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"{passed} passed, {count - passed} skipped" in finished.stdout, finished.stdout
    kind = f"{server.url} is a {'broker of 1' if brokers == 1 else 'cluster of 3'}"
    assert f"of the test's own ({kind})" in finished.stdout


class Break(NamedTuple):
    """A service with a wrong line for a right one, and the test of the suite that finds it."""

    service: str
    right: str
    wrong: str
    red: str


TAKES_BACK = Break(
    "billing.py",
    "self.producer.commit_transaction(",
    "self.producer.abort_transaction(",
    "test_an_order_whose_charge_is_refused_is_the_next_one_again",
)
FORGETS_ITS_POSITION = Break(
    "billing.py",
    "        self.producer.send_offsets_to_transaction(",
    "        str(",
    "test_an_instance_that_takes_over_bills_no_order_again",
)
COMMITS_TOO_EARLY = Break(
    "shipping.py",
    "        await self.ship(invoice.key)\n        await self.consumer.commit()\n",
    "        await self.consumer.commit()\n        await self.ship(invoice.key)\n",
    "test_a_crash_between_a_parcel_and_its_commit_ships_it_again",
)
READS_UNCOMMITTED = Break(
    "shipping.py",
    'isolation_level="read_committed"',
    'isolation_level="read_uncommitted"',
    "test_an_invoice_that_was_taken_back_is_not_shipped",
)


@pytest.mark.parametrize(
    "breaks",
    [
        pytest.param((TAKES_BACK, COMMITS_TOO_EARLY), marks=pytest.mark.soak),
        (FORGETS_ITS_POSITION, READS_UNCOMMITTED),
    ],
)
def test_the_suite_turns_red_when_its_services_are_broken(copy: Path, breaks: tuple[Break, ...]) -> None:
    """One break in each service; a run of the two tests that look for them."""
    for service, right, wrong, _ in breaks:
        source = (copy / service).read_text()
        assert source.count(right) == 1
        (copy / service).write_text(source.replace(right, wrong))
    finished = run_suite(copy, "-k", " or ".join(one.red for one in breaks))
    assert "2 failed" in finished.stdout, finished.stdout
    for one in breaks:
        assert f"::{one.red}" in finished.stdout
