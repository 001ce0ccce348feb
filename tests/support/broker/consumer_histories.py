"""Histories of a consumer group: clients that join, leave, crash and lose answers, and what each of them owns.

A client owns what it was answered until it reports otherwise, as a client library does: it is told a smaller
assignment, stops reading what is not in it, and then reports what it has. After an answer that was lost it sends a full
heartbeat; when it is fenced it gives up everything, and joins again.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from support.broker.consumer_lab import REBALANCE_MS, Answer, ConsumerLab
from support.broker.group_histories import Client, GroupHistory

TOPICS = ("t0", "t1", "t2")
SUBSCRIPTIONS = (("t0",), ("t0", "t1"), ("t0", "t1", "t2"), ("t2",), (), "t.*", "t[01]")
"""Names of topics, or an expression."""
STATIC_CLIENTS = 2
MOST_PARTITIONS = 9

Places = set[tuple[str, int]]


class Report(Enum):
    """What a heartbeat says of the partitions that the client owns."""

    NOTHING = "nothing"
    ALL = "all that it reads: it has not given up what it was asked to"
    GIVEN_UP = "its assignment: it has given up the rest"


class Consumer(Client):
    """One consumer; its member id changes with its process."""

    def __init__(self, history: History, number: int) -> None:
        self._history = history
        self._lab = history.lab
        self._number = number
        self._processes = 0
        self.instance_id = f"i{number}" if number < STATIC_CLIENTS else None
        self.subscription: tuple[str, ...] | str = SUBSCRIPTIONS[2]
        self.is_running = False
        self.is_member = False
        """Whether it has joined, as it sees it."""
        self.epoch = 0
        self.assigned: Places = set()
        """The last assignment that it was answered."""
        self.owned: Places = set()
        """What it reads: all that it was answered, and has not reported to have given up."""
        self._sends_all = False

    @property
    def member_id(self) -> str:
        return f"c{self._number}-{self._processes}"

    @property
    def share(self) -> object:
        return self.assigned

    # --- what a client does

    async def join(self, subscription: tuple[str, ...] | str) -> None:
        """Start the process if it does not run, and join with this subscription; a member joins again."""
        if not self.is_running:
            self._processes += 1
            self.is_running = True
        self.subscription = subscription
        self._give_up_all()
        await self.beat()

    async def leave(self) -> None:
        """Leave for good, and end the process."""
        if self.is_member:
            self._give_up_all()
            await self._lab.leave(self.member_id, instance_id=self.instance_id)
        self.crash()

    async def leave_for_a_while(self) -> None:
        """End the process of a static member, which is to come back."""
        if self.is_member and self.instance_id is not None:
            self._give_up_all()
            await self._lab.leave(self.member_id, -2, instance_id=self.instance_id)
            self.crash()

    def crash(self) -> None:
        """End the process without a word."""
        self.is_running = False
        self._give_up_all()

    async def subscribe(self, subscription: tuple[str, ...] | str) -> None:
        if self.is_running:
            self.subscription = subscription
            self._sends_all = True
            await self.beat()

    async def beat(self, report: Report = Report.GIVEN_UP, *, is_answered: bool = True) -> None:
        """Send a heartbeat. Without `is_answered` the connection breaks before the answer comes."""
        if not self.is_running:
            return
        answer = await (self._send(report) if self.is_member else self._send_join())
        if is_answered and answer.error not in ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"):
            self._take(answer)
        else:
            self._sends_all = True

    def _send_join(self) -> Any:
        return self._lab.join(self.member_id, instance_id=self.instance_id, **self._wish())

    def _send(self, report: Report) -> Any:
        fields: dict[str, Any] = {}
        if report is Report.GIVEN_UP:
            self.owned = set(self.assigned)
        if report is not Report.NOTHING or self._sends_all:
            fields["owned"] = as_topics(self.owned)
        if self._sends_all:
            fields |= {"rebalance_timeout_ms": REBALANCE_MS, **self._wish()}
        self._sends_all = False
        return self._lab.beat(self.member_id, self.epoch, instance_id=self.instance_id, **fields)

    def _wish(self) -> dict[str, Any]:
        if isinstance(self.subscription, str):
            return {"names": [], "regex": self.subscription}
        return {"names": self.subscription, "regex": ""}

    def _take(self, answer: Answer) -> None:
        match answer.error:
            case "NONE":
                self.is_member, self.epoch = True, answer.epoch
                if answer.assigned is not None:
                    self.assigned = as_places(answer.assigned)
                    self._history.check_free(self, self.assigned - self.owned)
                    self.owned |= self.assigned
            case "FENCED_MEMBER_EPOCH" | "UNKNOWN_MEMBER_ID":
                self._give_up_all()
            case "UNRELEASED_INSTANCE_ID" | "FENCED_INSTANCE_ID":
                assert self.instance_id is not None
                self.crash()
            case error:
                raise AssertionError(f"{self.member_id}: {error}: {answer.message}")

    def _give_up_all(self) -> None:
        self.is_member, self.epoch, self._sends_all = False, 0, False
        self.assigned, self.owned = set(), set()


class History(GroupHistory[ConsumerLab, Consumer]):
    """Consumers of one group, and the steps that they take."""

    def _client(self, number: int) -> Consumer:
        return Consumer(self, number)

    def _begin(self) -> None:
        self.lab.add_topics(*TOPICS[:2])

    # --- steps

    async def _join(self, number: int, subscription: int) -> None:
        await self.clients[number].join(SUBSCRIPTIONS[subscription])

    async def _away(self, number: int) -> None:
        await self.clients[number].leave_for_a_while()

    async def _subscribe(self, number: int, subscription: int) -> None:
        await self.clients[number].subscribe(SUBSCRIPTIONS[subscription])

    async def _grow(self, topic: int) -> None:
        """Add a partition to a topic, or create it."""
        known = self.lab.broker.controller.topic(TOPICS[topic])
        if known is None:
            self.lab.add_topics(TOPICS[topic], partitions=3)
        elif len(known.partitions) < MOST_PARTITIONS:
            await self.lab.add_partitions(TOPICS[topic], 1)

    # --- what holds

    def check_free(self, client: Consumer, places: Places) -> None:
        """No other client owns one of these partitions, unless the coordinator has removed it."""
        members = self.lab.group.memberships
        for other in self.clients:
            if other is not client and other.member_id in members:
                both = other.owned & places
                assert not both, f"{client.member_id} is given {both}, which {other.member_id} owns"

    def _check_owners(self) -> None:
        """No two members have a partition, as the coordinator sees it."""
        if "g" not in self.lab.groups.groups:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, current in self.lab.group.currents.items():
            for partitions in (current.assigned, current.revoking):
                for topic_id, numbers in partitions.items():
                    for number in numbers:
                        other = owners.setdefault((topic_id, number), member_id)
                        assert other == member_id, f"{member_id} and {other} have partition {number}"

    def _check_settled(self, running: list[Consumer]) -> None:
        topics = {client: self._topics_of(client) for client in running}
        wanted = {
            (name, number)
            for name in set().union(*topics.values())
            for number in range(len(self.lab.broker.controller.topics[name].partitions))
        }
        assert sum(len(client.assigned) for client in running) == len(wanted)
        assert set().union(*(client.assigned for client in running)) == wanted
        for client in running:
            assert client.owned == client.assigned == as_places(self.lab.assigned_to(client.member_id))
            assert {name for name, _ in client.assigned} <= topics[client]
            for name, _ in client.assigned:
                least = min(len(other.assigned) for other in running if name in topics[other])
                assert len(client.assigned) - least <= 1, f"{client.member_id} has more than its share of {name}"

    def _topics_of(self, client: Consumer) -> set[str]:
        """The topics that a client subscribes to, and that exist."""
        wish = client.subscription
        matches = {"t.*": TOPICS, "t[01]": TOPICS[:2]}[wish] if isinstance(wish, str) else wish
        return {name for name in matches if self.lab.broker.controller.topic(name) is not None}


def as_places(topics: dict[str, list[int]]) -> Places:
    return {(name, number) for name, numbers in topics.items() for number in numbers}


def as_topics(places: Places) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name, number in sorted(places):
        topics.setdefault(name, []).append(number)
    return topics
