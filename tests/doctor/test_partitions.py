"""Failed log directories are named."""

from __future__ import annotations

from typing import Any

from kmini import Broker

from .conftest import Examine


def test_a_log_directory_that_has_failed_is_named(diagnose: Examine) -> None:
    with Broker() as broker:
        broker.faults.on("DescribeLogDirs").respond(failed)
        found = diagnose(broker.bootstrap_servers)["log-dir-offline"]
    assert "of broker 1 is offline" in found.text


def failed(request: Any, answer: Any) -> Any:
    answer.results[0].error_code = 56
    return answer
