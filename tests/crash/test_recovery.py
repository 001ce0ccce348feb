"""Recovery itself may be interrupted, at any operation and more than once: the next one finds everything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from kmini.storage.filesystem.faults import PowerLoss

Machine = Any
Survive = Callable[..., int]


def busy_life(machine: Machine) -> None:
    """Leaves segments, indexes, snapshots, checkpoints, files to be deleted."""
    machine.produce(*(f"{number}" for number in range(9)))
    machine.write_checkpoints()
    machine.delete_records(3)
    machine.produce(*(f"{number}" for number in range(9, 13)))


def start_over(machine: Machine) -> None:
    """The process was killed, and starts again; a start may fail when the disk does, the one after it may not."""
    faults = machine.filesystem.faults
    machine.filesystem = machine.filesystem.kill(faults)
    with contextlib.suppress(OSError):
        machine.start()


def test_an_interrupted_recovery_is_repeated(survive: Survive) -> None:
    survive(start_over, before=busy_life)


def test_so_is_one_after_a_torn_write(survive: Survive) -> None:
    def before(machine: Machine) -> None:
        busy_life(machine)
        machine.log().segments.active.log.append(b"half a batch")

    survive(start_over, before=before)


def test_so_is_one_that_has_to_do_without_indexes(survive: Survive) -> None:
    def before(machine: Machine) -> None:
        busy_life(machine)
        directory = machine.log().directory
        for name in machine.filesystem.list(directory):
            if name.endswith("index"):
                machine.filesystem.remove(f"{directory}/{name}")

    survive(start_over, before=before)


def test_a_clean_shutdown_and_start_may_be_interrupted_too(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        with contextlib.suppress(OSError):
            machine.restart()
        start_over(machine)

    survive(story, before=busy_life)


@pytest.mark.parametrize("seed", range(60))
def test_without_flushes_a_power_loss_leaves_a_beginning_of_what_was_sent(make_machine: Any, seed: int) -> None:
    """Nothing is promised then but that what is left was sent, in order and whole, and that the broker starts."""
    machine = make_machine(flush_messages=2**63 - 1)
    machine.start()
    with contextlib.suppress(PowerLoss):
        busy_life(machine)
    machine.filesystem = machine.filesystem.crash(seed)
    promises = next(iter(machine.promises.values()))
    promises.acknowledged.clear()
    promises.log_start_offset = 0
    machine.start()
    machine.check()
