"""Histories of groups of the new protocols (KIP-848, KIP-932, KIP-1071), drawn at random: what members do, well and
badly.

Both servers are played the same history. What is done next is drawn alike whatever they answered; which epoch and which
partitions a member sends follows from its answers.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from kmini.broker.groups.share.share_group_records import TARGET_ASSIGNMENT_MEMBER
from kmini.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue
from support.offset_requests import commit, fetch
from support.oracle.consumer_cast import JOINS, LEAVES_FOR_A_WHILE, PATIENT, REBALANCE_MS, ConsumerCast
from support.oracle.share_cast import ShareCast
from support.oracle.streams_cast import StreamsCast

Action = Callable[[str], None]
"""Something that a member does."""


class History(ABC):
    """One history of a group."""

    partitions: ClassVar[Mapping[str, int]]
    """How many the topics have at first."""
    members: ClassVar[Sequence[str]]

    def __init__(self, cast: ConsumerCast, seed: int) -> None:
        self._cast = cast
        self._dice = random.Random(seed)
        self._counts = dict(self.partitions)
        self._number = 0
        cast.set_pace(PATIENT)

    def play(self, steps: int) -> None:
        """Do so many things, with looks at the group in between, and note its records in the end."""
        chances = self._chances()
        for _ in range(steps):
            (action,) = self._dice.choices([*chances], [*chances.values()])
            self._number += 1
            action(self._dice.choice(self.members))
            if self._number % 10 == 0:
                self._cast.describe(f"{self._number}: described")
        self._cast.note_records("records")

    @abstractmethod
    def _chances(self) -> dict[Action, int]:
        """What may be done, and how likely it is beside the others."""

    @abstractmethod
    def _join(self, who: str) -> None: ...

    @abstractmethod
    def _beat(self, what: str, member: str, epoch: int | None = None, **fields: Any) -> None: ...

    def _member(self, who: str) -> tuple[str, dict[str, Any]]:
        """The member id, and the fields that this member sends each time."""
        return who, {}

    def _owned(self, member: str) -> Any:
        """What a client without faults says that it has."""
        return None

    # --- what members of every kind do

    def _step(self, who: str) -> None:
        """A heartbeat of a client without faults: one that is not in the group joins."""
        member, fields = self._member(who)
        if self._cast.epochs.get(member, -1) <= JOINS:
            self._join(who)
        else:
            self._beat("step", member, owned=self._owned(member), **fields)

    def _plain(self, who: str) -> None:
        member, fields = self._member(who)
        self._beat("plain", member, **fields)

    def _wrong_epoch(self, who: str) -> None:
        member, fields = self._member(who)
        present = self._cast.epochs.get(member, 1)
        wrong = max(1, present + self._dice.choice((-2, -1, -1, -1, 1)))
        owned = self._dice.choice([None, *self._wrongly_owned(member)])
        self._beat("wrong epoch", member, wrong, owned=owned, **fields)

    def _wrong_owned(self, who: str) -> None:
        member, fields = self._member(who)
        self._beat("wrongly owned", member, owned=self._dice.choice(self._wrongly_owned(member)), **fields)

    def _wrongly_owned(self, member: str) -> list[Any]:
        """What a client with faults may say that it has."""
        return [None]

    def _leave(self, who: str) -> None:
        member, fields = self._member(who)
        self._beat("leave", member, -1, **fields)

    def _time_out(self, who: str) -> None:
        member, fields = self._member(who)
        self._cast.time_out(f"{self._number}: last of {member}", member, **fields)
        self._cast.epochs.pop(member, None)

    def _grow(self, _: str) -> None:
        name = self._dice.choice([*self._counts])
        self._counts[name] += 1
        self._cast.grow(name, self._counts[name])

    def _offsets(self, who: str) -> None:
        cast = self._cast
        member, _ = self._member(who)
        epoch = cast.epochs.get(member, 1) + self._dice.choice((-1, -1, 0, 0, 1))
        places = self._dice.sample(range(self.partitions["t"]), 2)
        request = commit(cast.group, cast.full("t"), *places, generation=epoch, member_id=member)
        cast.ask(f"{self._number}: commit of {places} by {member}", request, 9)
        asked = fetch(cast.group, [(cast.full("t"), range(5))], 9, member_id=member, member_epoch=epoch)
        cast.ask(f"{self._number}: fetch by {member}", asked, 9)


STATIC = ("i", "j")
"""Instance ids; the member ids are these and a number."""


class ConsumerHistory(History):
    """Consumers that may be static members."""

    partitions: ClassVar[Mapping[str, int]] = {"t": 5, "u": 3, "v": 1}
    members = ("a", "b", "c", *STATIC)

    def __init__(self, cast: ConsumerCast, seed: int) -> None:
        super().__init__(cast, seed)
        self._lives = dict.fromkeys(STATIC, 1)
        """How often each static member has come with a new id."""
        self._stale: dict[str, dict[str, list[int]]] = {}
        """What a member was assigned some time before."""

    def _chances(self) -> dict[Action, int]:
        return {
            self._step: 40,
            self._plain: 10,
            self._join: 14,
            self._subscribe: 8,
            self._unusual: 6,
            self._wrong_epoch: 8,
            self._wrong_owned: 8,
            self._leave: 5,
            self._away: 6,
            self._offsets: 6,
            self._grow: 2,
            self._time_out: 2,
        }

    def _join(self, who: str) -> None:
        """Join, or join again; a static member often with a new id."""
        if who in STATIC and self._dice.random() < 0.7:
            self._lives[who] += 1
        member, fields = self._member(who)
        # With no topics, Kafka may assign as if all members subscribed to what the first one does: to nothing.
        wish = {"names": self._topics() or ["t"]}
        self._beat("join", member, JOINS, owned={}, rebalance_timeout_ms=REBALANCE_MS, **wish, **fields)

    def _subscribe(self, who: str) -> None:
        member, fields = self._member(who)
        owned = self._dice.choice([None, self._owned(member)])
        self._beat("subscribe", member, names=self._topics(), owned=owned, **fields)

    def _unusual(self, who: str) -> None:
        """Something that needs no other assignment; or another instance id."""
        member, fields = self._member(who)
        changes: list[dict[str, Any]] = [
            {"rack_id": self._dice.choice("xy")},
            {"rebalance_timeout_ms": REBALANCE_MS + self._dice.randrange(3)},
            {"instance_id": self._dice.choice(STATIC)},
            {"version": 0},
            {"rack_id": ""},
        ]
        self._beat("unusual", member, **{**fields, **self._dice.choice(changes)})

    def _away(self, who: str) -> None:
        member, fields = self._member(who)
        self._beat("away", member, LEAVES_FOR_A_WHILE, **fields)

    def _member(self, who: str) -> tuple[str, dict[str, Any]]:
        """A static member sends its instance id each time."""
        if who in STATIC:
            return f"{who}{self._lives[who]}", {"instance_id": who}
        return who, {}

    def _owned(self, member: str) -> Any:
        return self._cast.assigned.get(member, {})

    def _wrongly_owned(self, member: str) -> list[Any]:
        everything = {name: [*range(count)] for name, count in self.partitions.items()}
        return [{}, everything, self._owned(member), self._stale.get(member, {}), {"none": [0]}]

    def _topics(self) -> list[str]:
        """Topics to subscribe to; one of them is never there."""
        return [name for name in (*self.partitions, "none") if self._dice.random() < 0.6]

    def _beat(self, what: str, member: str, epoch: int | None = None, **fields: Any) -> None:
        before = self._cast.assigned.get(member)
        answer = self._cast.beat(
            f"{self._number}: {what} of {member}", member, epoch, server_assignor="range", **fields
        )
        if before is not None and self._cast.assigned[member] != before:
            self._stale[member] = before
        if answer.error_code and epoch is None:
            self._cast.epochs.pop(member, None)


class StreamsHistory(History):
    """Processes of Kafka Streams: a subtopology without a state, and one with a state and a standby of it."""

    partitions: ClassVar[Mapping[str, int]] = {"t": 3, "u": 2}
    members = ("a", "b", "c")

    def __init__(self, cast: StreamsCast, seed: int) -> None:
        super().__init__(cast, seed)
        self._streams = cast
        self._topology = (cast.sub("0", "t"), cast.sub("1", "u", keeps=["c"]))
        self._stale: dict[str, list[Any]] = {}
        """The tasks that a member had some time before."""

    def play(self, steps: int) -> None:
        self._streams.set_standbys(self._dice.choice((0, 1)))
        self._join("a")
        self._streams.adopt(c=self.partitions["u"])
        self._counts.pop("u")  # a store's changelog does not grow with it
        super().play(steps)

    def _chances(self) -> dict[Action, int]:
        return {
            self._step: 50,
            self._plain: 10,
            self._join: 8,
            self._unusual: 6,
            self._wrong_epoch: 8,
            self._wrong_owned: 8,
            self._leave: 5,
            self._offsets: 4,
            self._shut_down: 1,
            self._grow: 2,
            self._time_out: 2,
        }

    def _join(self, who: str) -> None:
        self._streams.join(f"{self._number}: join of {who}", who, *self._topology, process_id=who)

    def _unusual(self, who: str) -> None:
        changes: list[dict[str, Any]] = [
            {"rack_id": self._dice.choice("xy")},
            {"rebalance_timeout_ms": REBALANCE_MS + self._dice.randrange(3)},
            {"client_tags": [KeyValue(key="zone", value=self._dice.choice("xy"))]},
            {"user_endpoint": Endpoint(host=who, port=self._dice.randrange(1, 4))},
            {"endpoint_information_epoch": self._dice.randrange(4)},
            {"rack_id": ""},
        ]
        self._beat("unusual", who, **self._dice.choice(changes))

    def _shut_down(self, who: str) -> None:
        self._beat("shut down", who, shutdown_application=True)

    def _owned(self, member: str) -> Any:
        return self._streams.tasks.get(member, [{}, {}, {}])

    def _wrongly_owned(self, member: str) -> list[Any]:
        everything = [{"0": [0, 1, 2], "1": [0, 1]}, {}, {}]
        none = [{}, {}, {}]
        return [none, everything, self._owned(member), self._stale.get(member, none), [{"9": [0]}, {}, {}]]

    def _beat(self, what: str, member: str, epoch: int | None = None, **fields: Any) -> None:
        before = self._streams.tasks.get(member)
        answer = self._streams.beat(f"{self._number}: {what} of {member}", member, epoch, **fields)
        if before is not None and self._streams.tasks[member] != before:
            self._stale[member] = before
        if answer.error_code and epoch is None:
            self._cast.epochs.pop(member, None)


class ShareHistory(History):
    """Consumers of a queue, and administrators. Every member has a topic of its own, and what all may read has one
    partition: else the assignor may choose."""

    partitions: ClassVar[Mapping[str, int]] = {"t": 1, "u": 1, "v": 1, "a": 1, "b": 2, "c": 1}
    members = ("a", "b", "c")

    def __init__(self, cast: ShareCast, seed: int) -> None:
        super().__init__(cast, seed)
        self._share = cast
        self._counts = {name: self.partitions[name] for name in self.members}
        # In Apache Kafka the target of a member keeps topics that it does not subscribe to any more.
        cast.log.left_out = frozenset({TARGET_ASSIGNMENT_MEMBER})

    def _chances(self) -> dict[Action, int]:
        return {
            self._step: 50,
            self._join: 10,
            self._subscribe: 10,
            self._unusual: 4,
            self._wrong_epoch: 8,
            self._leave: 8,
            self._grow: 2,
            self._time_out: 2,
            self._alter_offsets: 3,
            self._delete_offsets: 3,
            self._describe_offsets: 3,
        }

    def _join(self, who: str) -> None:
        self._beat("join", who, JOINS, names=[who, *self._topics()])

    def _subscribe(self, who: str) -> None:
        self._beat("subscribe", who, names=[who, *self._topics()])

    def _unusual(self, who: str) -> None:
        self._beat("unusual", who, rack_id=self._dice.choice(("x", "y", "")))

    def _alter_offsets(self, who: str) -> None:
        self._share.alter_offsets(f"{self._number}: altered", {name: {0: 0} for name in (who, *self._topics())})
        self._cast.log.wait_for_states()

    def _delete_offsets(self, who: str) -> None:
        self._share.delete_offsets(f"{self._number}: deleted", who, *self._topics())
        self._cast.log.wait_for_states()

    def _describe_offsets(self, _: str) -> None:
        self._share.describe_offsets(f"{self._number}: offsets", None)

    def _topics(self) -> list[str]:
        return [name for name in ("t", "u", "v", "none") if self._dice.random() < 0.5]

    def _beat(self, what: str, member: str, epoch: int | None = None, **fields: Any) -> None:
        fields.pop("owned", None)  # members of share groups do not say
        answer = self._cast.beat(f"{self._number}: {what} of {member}", member, epoch, **fields)
        if answer.error_code and epoch is None:
            self._cast.epochs.pop(member, None)
        self._cast.log.wait_for_states()
