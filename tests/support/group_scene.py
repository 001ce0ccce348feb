"""A topic, a group, its members past and present, and what has been produced: the stage of tests of groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from support.batches import Item, batch
from support.group_members import PATIENCE_S, GroupMember, Ownership, Partition, Place, overlaps
from support.kafka_requests import create_topics, produce, wait_for_leaders
from support.until import until
from support.wire import Wire


class GroupScene:
    """One group's topics at a server, and its members. Raises AssertionError where a wait takes too long."""

    def __init__(self, wire: Wire, log_tail: Callable[[], str]) -> None:
        self.members: list[GroupMember] = []
        self.wire = wire
        self._log_tail = log_tail
        self._produced: Counter[Partition] = Counter()

    def create_topic(self, name: str, partitions: int) -> None:
        """It keeps its records for ever: theirs is the first millisecond of all, and a test may move the clock."""
        topic = {"name": name, "num_partitions": partitions, "configs": {"retention.ms": "-1"}}
        self.wire.ask(create_topics(topic), 5)
        self.note_topic(name, partitions)

    def note_topic(self, name: str, partitions: int) -> None:
        """Count the partitions of a topic as the group's, once they have leaders."""
        wait_for_leaders(self.wire, name, partitions)
        self._produced.update({(name, partition): 0 for partition in range(partitions)})

    @property
    def partitions(self) -> list[Partition]:
        return sorted(self._produced)

    def produce(self, count: int = 10) -> None:
        """So many records for every partition."""
        for topic, partition in self.partitions:
            answer = self.wire.ask(produce(topic, batch([Item()] * count), partition=partition), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            self._produced[topic, partition] += count

    def wait_until_shared(self, *members: GroupMember) -> None:
        """Return when these members own all partitions, each of them some."""
        self.wait(lambda: self.is_shared(*members))

    def is_shared(self, *members: GroupMember) -> bool:
        owned = [member.owned for member in members]
        return sorted(partition for each in owned for partition in each) == self.partitions and all(owned)

    def wait_until_handled(self) -> None:
        self.wait(lambda: {*self.handled()} == self.places())

    def handled(self) -> list[Place]:
        return [place for member in self.members for place in member.handled]

    def handled_again(self) -> list[Place]:
        """The records that were handled more than once."""
        return [place for place, times in Counter(self.handled()).items() if times > 1]

    def overlaps(self) -> list[tuple[Ownership, Ownership]]:
        """Where two members had a partition at one time."""
        return overlaps(self.members)

    def assert_each_record_was_handled_once(self) -> None:
        """Wait until all are handled. Only those may be twice whose commit the group has refused, and no partition may
        have had two members at once."""
        self.wait_until_handled()
        refused = {place for member in self.members for place in member.refused}
        assert {*self.handled_again()} <= refused, self._say()
        overlaps = self.overlaps()
        assert overlaps == [], f"{overlaps}\n{self._say()}"

    def places(self) -> set[Place]:
        produced = self._produced.items()
        return {(*partition, offset) for partition, count in produced for offset in range(count)}

    def produced(self) -> dict[Partition, int]:
        """The number of records of each partition."""
        return dict(self._produced)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Return when something is so."""
        until(is_so, self._say, timeout_s=PATIENCE_S, poll_s=0.02)

    def _say(self) -> str:
        lines = [member.say() for member in self.members]
        missing = sorted(self.places() - {*self.handled()})
        return "\n".join([*lines, f"missing {missing[:20]}", self._log_tail()])

    def close(self) -> None:
        self.wire.socket.close()

    def leave(self, members: Iterable[GroupMember] | None = None) -> None:
        """Let these members, or all, leave the group."""
        for member in self.members if members is None else members:
            member.leave()
