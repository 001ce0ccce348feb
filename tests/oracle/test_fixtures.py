"""The fixtures on Apache Kafka: the suite of examples/orders runs there, and skips what needs kmini."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kmini.remote.remote_broker import RemoteBroker
from support.server_process import ServerProcess

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "orders"

SKIPPED = {
    "test_a_test_that_expects_the_invoice_of_a_refused_charge_is_told_where_it_is": 'records with isolation="all"',
    "test_an_invoice_is_written_once_although_the_answer_of_the_commit_is_lost": "faults",
    "test_an_order_is_placed_although_the_leader_has_moved": "faults",
    "test_an_order_is_placed_once_although_the_answer_is_lost": "faults",
    "test_an_order_that_is_forgotten_leaves_no_byte_in_the_log": "topic.compact",
    "test_orders_are_billed_once_each_over_a_restart_of_the_broker": "stop",
    "test_orders_are_billed_once_each_when_the_coordinator_of_transactions_dies": "cluster of the test's own",
    "test_orders_are_kept_when_their_leader_dies": "cluster of the test's own",
    "test_orders_go_after_a_week": "clock.advance",
}
"""The tests of the example that need kmini, and what of it."""


def test_the_suite_of_the_example_runs_on_apache_kafka_and_skips_what_needs_kmini(
    apache_kafka_server: ServerProcess, tmp_path: Path
) -> None:
    address = apache_kafka_server.bootstrap_servers
    folder = shutil.copytree(EXAMPLE, tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__"))
    count = sum(len(re.findall(r"^(?:async )?def test_", path.read_text(), re.M)) for path in folder.glob("test_*.py"))
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "--kafka-bootstrap", address],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": "", "COLUMNS": "250"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    told = finished.stdout + finished.stderr
    assert f"{count - len(SKIPPED)} passed, {len(SKIPPED)} skipped" in told, told
    for test, what in SKIPPED.items():
        assert re.search(rf"::{test} SKIPPED \(needs kmini: {re.escape(what)} \({address} is Apache Kafka", told), told
    line = f"kafka: {count} tests on Apache Kafka 4.3, {len(SKIPPED)} skipped "
    assert line + "(clock 1, cluster 2, compact 1, faults 3, records 1, stop 1)" in finished.stdout
    with RemoteBroker(address, prefix="kmini-") as remote:
        assert remote.topics() == [], "the run has deleted its topics"
