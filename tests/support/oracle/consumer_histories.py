"""Histories of consumer groups (KIP-848), drawn at random: what members do, well and badly.

Both servers are played the same history. What is done next is drawn alike whatever they answered; which epoch and which
partitions a member sends follows from its answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from support.offset_requests import commit, fetch
from support.oracle.consumer_cast import JOINS, LEAVES_FOR_A_WHILE, REBALANCE_MS, ConsumerCast

NAMES = ("t", "u", "v", "none")
"""Topics that members subscribe to; one of them is never there."""

PARTITIONS = {"t": 5, "u": 3, "v": 1}

DYNAMIC = ("a", "b", "c")
STATIC = ("i", "j")
"""Instance ids; the member ids are these and a number."""


class History:
    """One history of a group."""

    def __init__(self, cast: ConsumerCast, seed: int) -> None:
        self._cast = cast
        self._dice = random.Random(seed)
        self._lives = dict.fromkeys(STATIC, 1)
        """How often each static member has come with a new id."""
        self._stale: dict[str, dict[str, list[int]]] = {}
        """What a member was assigned some time before."""
        self._counts = dict(PARTITIONS)
        self._number = 0

    def play(self, steps: int) -> None:
        """Do so many things, with looks at the group in between, and note its records in the end."""
        chances: dict[Callable[[str], None], int] = {
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
        }
        for _ in range(steps):
            (action,) = self._dice.choices([*chances], [*chances.values()])
            self._number += 1
            action(self._dice.choice((*DYNAMIC, *STATIC)))
            if self._number % 10 == 0:
                self._cast.describe(f"{self._number}: described")
        self._cast.note_records("records")

    # --- what members do

    def _step(self, who: str) -> None:
        """A heartbeat of a client without faults: one that is not in the group joins."""
        member, fields = self._member(who)
        if self._cast.epochs.get(member, -1) <= JOINS:
            self._join(who)
        else:
            self._beat("step", member, owned=self._cast.assigned.get(member, {}), **fields)

    def _plain(self, who: str) -> None:
        member, fields = self._member(who)
        self._beat("plain", member, **fields)

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
        owned = self._dice.choice([None, self._cast.assigned.get(member, {})])
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

    def _wrong_epoch(self, who: str) -> None:
        member, fields = self._member(who)
        present = self._cast.epochs.get(member, 1)
        wrong = max(1, present + self._dice.choice((-2, -1, -1, -1, 1)))
        owned = self._dice.choice([None, {}, self._cast.assigned.get(member, {}), self._stale.get(member, {})])
        self._beat("wrong epoch", member, wrong, owned=owned, **fields)

    def _wrong_owned(self, who: str) -> None:
        member, fields = self._member(who)
        everything = {name: [*range(count)] for name, count in PARTITIONS.items()}
        owned = self._dice.choice([{}, everything, self._stale.get(member, {}), {"none": [0]}])
        self._beat("wrong partitions", member, owned=owned, **fields)

    def _leave(self, who: str) -> None:
        member, fields = self._member(who)
        self._beat("leave", member, -1, **fields)

    def _away(self, who: str) -> None:
        member, fields = self._member(who)
        self._beat("away", member, LEAVES_FOR_A_WHILE, **fields)

    def _offsets(self, who: str) -> None:
        cast = self._cast
        member, _ = self._member(who)
        epoch = cast.epochs.get(member, 1) + self._dice.choice((-1, -1, 0, 0, 1))
        places = self._dice.sample(range(PARTITIONS["t"]), 2)
        request = commit(cast.group, cast.full("t"), *places, generation=epoch, member_id=member)
        cast.ask(f"{self._number}: commit of {places} by {member}", request, 9)
        asked = fetch(cast.group, [(cast.full("t"), range(5))], 9, member_id=member, member_epoch=epoch)
        cast.ask(f"{self._number}: fetch by {member}", asked, 9)

    def _grow(self, _: str) -> None:
        name = self._dice.choice([*PARTITIONS])
        self._counts[name] += 1
        self._cast.grow(name, self._counts[name])

    # --- what they say

    def _member(self, who: str) -> tuple[str, dict[str, Any]]:
        """The member id, and the fields that a static member sends each time."""
        if who in STATIC:
            return f"{who}{self._lives[who]}", {"instance_id": who}
        return who, {}

    def _topics(self) -> list[str]:
        return [name for name in NAMES if self._dice.random() < 0.6]

    def _beat(self, what: str, member: str, epoch: int | None = None, **fields: Any) -> None:
        before = self._cast.assigned.get(member)
        answer = self._cast.beat(
            f"{self._number}: {what} of {member}", member, epoch, server_assignor="range", **fields
        )
        if before is not None and self._cast.assigned[member] != before:
            self._stale[member] = before
        if answer.error_code and epoch is None:
            self._cast.epochs.pop(member, None)
