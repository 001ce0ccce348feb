"""What was acknowledged survives whatever happens to the disk while records are appended and segments rolled.

With flush.messages=1 also a power loss: an append is on the disk before it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem.faults import Faults

Machine = Any
Survive = Callable[..., int]


def test_acknowledged_records_survive_and_none_is_there_twice(survive: Survive) -> None:
    def story(machine: Machine) -> None:
        machine.produce("1", "2", "3", "4", "5", "6", "7", "8")

    assert survive(story) > 20


def test_so_they_do_in_a_log_that_had_segments_before(survive: Survive) -> None:
    def before(machine: Machine) -> None:
        machine.produce("1", "2", "3", "4", "5")
        machine.write_checkpoints()

    def story(machine: Machine) -> None:
        machine.produce("6", "7", "8", "9")

    survive(story, before=before)


def test_one_partition_does_not_suffer_from_another(survive: Survive) -> None:
    other = TopicPartition("others", 3)

    def story(machine: Machine) -> None:
        for number in range(4):
            machine.produce(f"{number}")
            machine.produce(f"other {number}", topic_partition=other)

    survive(story)


def test_after_a_full_disk_the_same_process_goes_on_when_there_is_room(survive: Survive, outage: Any) -> None:
    def story(machine: Machine) -> None:
        machine.produce("1", "2", "3", "4", "5", "6")
        if outage.name == "the disk is full from then on":
            machine.filesystem.faults = Faults()
            machine.check()

    survive(story)
