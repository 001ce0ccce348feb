"""Names of topics and groups that are a test's own, on any Kafka."""

from __future__ import annotations

import itertools
import os
import re
import uuid

import pytest

MOST_OF_A_NAME = 100
"""Characters of a test's name that its topics and groups carry; Kafka takes 249 in all."""

_numbers = itertools.count(1)


def run_prefix(config: pytest.Config) -> str:
    """The prefix of all names of a worker: `kmini-5d1c0e9a-gw0-`. No other run, and no other worker, has it."""
    if _PREFIX not in config.stash:
        worker_input = getattr(config, "workerinput", {})
        run = worker_input.get("testrunuid") or uuid.uuid4().hex
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        config.stash[_PREFIX] = f"kmini-{run[:8]}-{worker}-"
    return config.stash[_PREFIX]


_PREFIX = pytest.StashKey[str]()


def test_prefix(prefix: str) -> str:
    """The prefix of the names of one test, below that of its worker. Empty without one."""
    return f"{prefix}{next(_numbers)}-" if prefix else ""


def name_of(item: pytest.Item, prefix: str = "") -> str:
    """A name that no other test has: the prefix, the test's name, and a number."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", item.name).strip("-")[:MOST_OF_A_NAME]
    return f"{prefix}{plain}-{next(_numbers)}"
