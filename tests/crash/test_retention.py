"""Retention deletes old records and no others, whatever fails meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Machine = Any
Survive = Callable[..., int]


def old_and_new(machine: Machine) -> None:
    machine.produce("old 1", "old 2", "old 3", "old 4", "old 5")
    machine.now_ms += 10_000
    machine.produce("new 1", "new 2")


def test_records_that_are_not_old_survive(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.pass_time(1)
        machine.pass_time(machine.config.file_delete_delay_ms)
        machine.produce("new 3")

    survive(story, before=old_and_new, retention_ms=5_000, file_delete_delay_ms=100)


def test_a_log_that_loses_everything_goes_on_at_its_end(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.pass_time(60_000)
        machine.pass_time(machine.config.file_delete_delay_ms)
        machine.produce("newest")

    survive(story, before=old_and_new, retention_ms=5_000, file_delete_delay_ms=100)


def test_retention_by_size_keeps_the_newest(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.pass_time(1)
        machine.produce("new 3", "new 4", "new 5")
        machine.pass_time(1)

    survive(story, before=old_and_new, retention_bytes=300, retention_ms=-1)
