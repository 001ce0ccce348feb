"""What a broker by itself starts without: every module that is imported is time until the first answer."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "package", ["kmini.client", "kmini.broker.replication.fetcher", "kmini.broker.local_cluster", "prometheus_client"]
)
def test_a_broker_starts_without_what_only_several_need(package: str) -> None:
    program = f"import sys, kmini.broker.broker; sys.exit({package!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
