"""examples/control/shell/cluster.sh: tests of a cluster pass against three brokers that a control API steers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "examples" / "control" / "shell" / "cluster.sh"
TOKEN = "of-the-tests"


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where three brokers and their control API listen, as the example reads it, with the stack's init directory."""
    if missing := [name for name in ("curl", "jq", "kcat") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not on the path")
    environ = {
        **os.environ,
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_REPLICA_LAG_TIME_MAX_MS": "1000",
        "KMINI_BROKERS": "3",
        "KMINI_HTTP": "0",
        "KMINI_HTTP_HOST": "127.0.0.1",
        "KMINI_HTTP_TOKEN": TOKEN,
        "KMINI_INIT_DIR": str(ROOT / "docker" / "cluster" / "init"),
    }
    command = [sys.executable, "-m", "kmini", "serve", "--env"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            kafka = [process.stdout.readline().strip() for _ in range(3)]
            link = process.stdout.readline().strip().rstrip("/")
            assert process.stdout.readline().startswith("ready: ")
            yield {"KAFKA": ",".join(kafka), "KMINI": link, "KMINI_HTTP_TOKEN": TOKEN}
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.read()


def run(script: Path, addresses: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(script)],
        env={**os.environ, **addresses},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_the_example_passes(addresses: dict[str, str]) -> None:
    finished = run(SCRIPT, addresses)
    assert (finished.returncode, finished.stdout) == (0, "4 passed\n"), finished.stderr


def test_the_example_fails_where_the_dead_leader_is_not_started_again(addresses: dict[str, str], tmp_path) -> None:
    text, count = re.subn(
        r'    api POST "/brokers/\$leader/restart".*\n.*wait-until-in-sync.*\n', "", SCRIPT.read_text(), count=1
    )
    assert count == 1
    changed = tmp_path / "cluster.sh"
    changed.write_text(text)
    finished = run(changed, addresses)
    assert finished.returncode == 1
    assert "wanted 3, found 2" in finished.stderr
