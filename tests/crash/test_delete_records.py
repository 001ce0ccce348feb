"""A log start offset in an answer of DeleteRecords never goes back, and no record above it is lost (KIP-107)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Machine = Any
Survive = Callable[..., int]


def five_segments(machine: Machine) -> None:
    machine.produce(*(f"{number}" for number in range(10)))
    machine.write_checkpoints()


def test_deleted_records_stay_deleted_and_the_others_stay(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.delete_records(3)
        machine.delete_records(7)
        machine.pass_time(machine.config.file_delete_delay_ms)

    survive(story, before=five_segments)


def test_deleting_everything_leaves_an_empty_log_at_its_end(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.delete_records(10)
        machine.produce("10", "11")
        machine.delete_records(12)
        machine.pass_time(machine.config.file_delete_delay_ms)
        machine.produce("12")

    survive(story, before=five_segments)


def test_the_periodic_checkpoint_does_not_undo_a_deletion(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.delete_records(4)
        machine.write_checkpoints()
        machine.delete_records(5)

    survive(story, before=five_segments)


def test_a_clean_shutdown_does_not_undo_it(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.delete_records(5)
        machine.restart()
        machine.produce("10")

    survive(story, before=five_segments)
