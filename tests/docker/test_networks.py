"""Which client is told which address, in networks like those that Docker makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
NETWORK_SPACE = ["unshare", "-n"]


def why_not() -> str:
    """Why no networks can be made here; empty where they can."""
    if missing := [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]:
        return f"there is no {missing[0]}"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root can make networks"
    bridge = [*NETWORK_SPACE, "ip", "link", "add", "bridge0", "type", "bridge"]
    return "" if subprocess.run(bridge, capture_output=True, check=False).returncode == 0 else "no bridge can be made"


@pytest.mark.parametrize("brokers", [1, 3])
def test_each_client_of_a_container_is_told_what_it_can_reach_and_produces_and_consumes(
    tmp_path: Path, brokers: int
) -> None:
    pytest.importorskip("kafka")
    if reason := why_not():
        pytest.skip(reason)
    finished = subprocess.run(
        [*NETWORK_SPACE, sys.executable, "-m", "support.docker.bridge_network", str(brokers)],
        cwd=TESTS,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    hosts = {
        "the host, through the published port": "localhost",
        "a container beside it": "172.31.77.2",
        "a program in the container": "127.0.0.1",
    }
    ports = range(9092, 9092 + brokers)  # each broker's, whichever of them is asked
    found = json.loads(finished.stdout)
    assert found["read"] == [3, 6, 9]
    assert found["told"] == {client: [[f"{host}:{port}" for port in ports]] * brokers for client, host in hosts.items()}
