"""The image as the dev stack runs it: without rights, and on a root that cannot be written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.docker.containers import Container, why_not
from support.docker.dockerfile import BROKER, DOCKER, last_of, read_stages

ASK_REGISTRY = """
from urllib.request import urlopen
print(urlopen("http://127.0.0.1:8081/subjects", timeout=30).read().decode())
"""


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    """The broker of compose.yaml."""
    if reason := why_not():
        pytest.skip(reason)
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["broker"]
    return found


@pytest.mark.parametrize(("files", "brokers"), [("init", 1), ("cluster/init", 3)], ids=["one broker", "three"])
def test_the_image_runs_on_a_root_that_cannot_be_written(
    service: dict[str, Any], tmp_path: Path, files: str, brokers: int
) -> None:
    image = last_of(read_stages()[BROKER])
    environ = {**service["environment"], "KMINI_HTTP_TOKEN": "of-the-user", "KMINI_BROKERS": str(brokers)}
    options = {
        "tmpfs": service["tmpfs"],
        "binds": {"/etc/kmini/init/ready.d": str(DOCKER / files)},
        "is_read_only": service["read_only"],
    }
    assert options["is_read_only"]
    assert "./init:/etc/kmini/init/ready.d:ro" in service["volumes"]
    with Container(tmp_path, image["CMD"].command, environ, **options) as container:
        container.wait_for(r"^ready: \[KafkaServer id=1\] started", "stdout")
        for path in ("/", "/usr", "/etc", "/opt/kafka", "/opt/kmini/bin", "/etc/kmini/init/ready.d"):
            refused = container.execute("touch", f"{path}/x")
            assert "Read-only file system" in refused.stderr, f"{path}: {refused}"
        healthy = container.execute(*image["HEALTHCHECK"].command)
        assert healthy.returncode == 0, healthy.stderr
        told = container.execute("sh", "-c", "id -u; grep -h -e NoNewPrivs -e CapEff /proc/1/status")
        assert told.stdout.split() == ["1000", "CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
        described = container.execute("kmini", "topic", "list", "-b", "127.0.0.1:9092")
        assert described.stdout.splitlines() == ["orders", "profiles"]
        asked = container.execute(sys.executable, "-c", ASK_REGISTRY)
        assert asked.stdout == "[]\n", asked.stderr
        produced = container.execute("sh", "-c", "echo hello | kmini produce orders -b 127.0.0.1:9092")
        assert produced.returncode == 0, produced.stderr
        consumed = container.execute("kmini", "consume", "profiles", "-b", "127.0.0.1:9092")
        assert len(consumed.stdout.splitlines()) == 2
        assert not [line for line in container.lines["stderr"] if "ERROR" in line or "WARNING" in line]
