"""A checkpoint is replaced as a whole: half of one is never found, and an old one costs time, not data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Machine = Any
Survive = Callable[..., int]


def test_records_and_log_start_survive_whatever_happens_to_the_checkpoints(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.write_checkpoints()
        machine.produce("5", "6")
        machine.write_checkpoints()

    def before(machine: Machine) -> None:
        machine.produce("0", "1", "2", "3", "4")
        machine.delete_records(2)

    survive(story, before=before)
