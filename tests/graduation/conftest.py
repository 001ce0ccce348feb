"""Data directories to graduate, made by brokers inside the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kmini import Broker
from kmini.graduation.graduate import Report, graduate

NOW_MS = 1_767_225_600_000

Make = Callable[..., Path]
Graduate = Callable[..., Report]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with two topics, closed in order."""
    with Broker(data_dir=tmp_path / "data", topics={"orders": 2, "empty": 1}) as broker:
        for number in range(10):
            broker.produce("orders", b"order %d" % number, partition=number % 2)
        broker.delete_records("orders", 2, partition=1)
    return tmp_path / "data"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "kafka"


@pytest.fixture
def run(data_dir: Path, out: Path) -> Graduate:
    """Graduate `data_dir`."""

    def run(**options: Any) -> Report:
        return graduate(str(data_dir), str(out), now_ms=NOW_MS, **options)

    return run
