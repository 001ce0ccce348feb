"""Twenty members that come, go, crash, stall and lose answers: each partition has one owner in every generation, and as
soon as they are left in peace the group settles with every partition owned."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from kmini.broker.groups.classic.member import JoinResult, SyncResult
from kmini.protocol.errors import error_name
from support.broker.group_lab import Lab

PARTITIONS = range(48)
MEMBERS = 20
STEP_MS = 500
SESSION_MS = 6_000
PROTOCOLS = ("range", "cooperative-sticky")


class Ledger:
    """Who says to own what, in which generation."""

    def __init__(self) -> None:
        self._owners: defaultdict[int, dict[int, str]] = defaultdict(dict)

    def claim(self, generation: int, owner: str, partitions: bytes) -> None:
        for partition in partitions:
            other = self._owners[generation].setdefault(partition, owner)
            assert other == owner, f"partition {partition} belongs to {other} and {owner} in generation {generation}"

    def owned(self, generation: int) -> set[int]:
        return {*self._owners[generation]}


class Consumer:
    """A member as client libraries are one, a step at a time."""

    def __init__(self, lab: Lab, ledger: Ledger, name: str, *, is_static: bool, version: int) -> None:
        self.name = name
        self.instance = name if is_static else None
        self.version = version
        self.wish = 0
        self.generation = -1
        self.owned: bytes | None = None
        self.stalled_steps = 0
        self._lab = lab
        self._ledger = ledger
        self._waiting: asyncio.Future[Any] | None = None
        self._member_id = ""
        self.is_fenced = False

    @property
    def is_settled(self) -> bool:
        return self.owned is not None

    def step(self) -> None:
        """Look whether there is an answer, and say what is to be said next."""
        if self.stalled_steps:
            self.stalled_steps -= 1
        elif self._waiting is None:
            self._heartbeat() if self.is_settled else self._join()
        elif self._waiting.done():
            answer, self._waiting = self._waiting.result(), None
            self._joined(answer) if isinstance(answer, JoinResult) else self._synced(answer)

    def lose_answer(self) -> None:
        """The connection breaks, and the client asks again over a new one."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self.owned = None

    def restart(self) -> None:
        """The process ends without a word, and a new one begins."""
        self.lose_answer()
        self._member_id = ""

    def leave(self) -> None:
        if self._member_id:
            self._lab.leave(self._member_id)

    def change(self) -> None:
        self.wish += 1
        self.owned = None

    def _join(self) -> None:
        self._waiting = self._lab.join(
            self._member_id,
            instance=self.instance,
            version=self.version,
            client=self.name,
            session_ms=SESSION_MS,
            rebalance_ms=10_000,
            protocols={protocol: bytes([self.wish % 256]) for protocol in PROTOCOLS},
        )

    def _joined(self, answer: JoinResult) -> None:
        self.generation = answer.generation_id
        match error_name(answer.error_code):
            case "NONE":
                self._member_id = answer.member_id
                assignments = {}
                if answer.leader_id == answer.member_id and not answer.skip_assignment:
                    ids = sorted(member.member_id for member in answer.members)
                    assignments = {
                        member_id: bytes(PARTITIONS[place :: len(ids)]) for place, member_id in enumerate(ids)
                    }
                self._waiting = self._lab.sync(
                    self._member_id, self.generation, assignments, instance=self.instance, protocol=("consumer", None)
                )
            case "MEMBER_ID_REQUIRED":
                self._member_id = answer.member_id
            case error:
                self._failed(error)

    def _synced(self, answer: SyncResult) -> None:
        if answer.error_code:
            self._failed(error_name(answer.error_code))
        else:
            self.owned = answer.assignment
            self._ledger.claim(self.generation, self.instance or self._member_id, self.owned)

    def _heartbeat(self) -> None:
        error = self._lab.heartbeat(self._member_id, self.generation, instance=self.instance)
        if error != "NONE":
            self._failed(error)

    def _failed(self, error: str) -> None:
        self.owned = None
        if error in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
            self._member_id = ""
        elif error == "FENCED_INSTANCE_ID":
            self.is_fenced = True
        else:
            assert error == "REBALANCE_IN_PROGRESS"


class Churn:
    """Up to twenty consumers, and what happens to them."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._chance = random.Random(seed)
        self._ledger = Ledger()
        self._names = iter(f"member-{number}" for number in range(100_000))
        self.consumers: list[Consumer] = []

    async def step(self) -> None:
        self._chance.shuffle(self.consumers)
        for consumer in self.consumers:
            consumer.step()
        assert not any(consumer.is_fenced for consumer in self.consumers)
        await self._lab.pass_time(STEP_MS)

    def disturb(self) -> None:
        chance = self._chance
        if len(self.consumers) < MEMBERS and chance.random() < 0.5:
            is_static, version = chance.random() < 0.4, chance.choice((3, 5, 9))
            name = next(self._names)
            self.consumers.append(Consumer(self._lab, self._ledger, name, is_static=is_static, version=version))
        if not self.consumers or chance.random() < 0.6:
            return
        victim = chance.choice(self.consumers)
        match chance.randrange(6):
            case 0:
                victim.leave()
                self.consumers.remove(victim)
            case 1:  # a crash
                victim.lose_answer()
                self.consumers.remove(victim)
            case 2:
                victim.restart()
            case 3:
                victim.stalled_steps = chance.randrange(2 * SESSION_MS // STEP_MS)
            case 4:
                victim.change()
            case 5:
                victim.lose_answer()

    def is_settled(self) -> bool:
        generation = self._lab.group.generation_id
        return all(one.is_settled and one.generation == generation for one in self.consumers) and self._ledger.owned(
            generation
        ) == {*PARTITIONS}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("delay_ms", [0, 3_000])
async def test_a_group_under_churn_settles(new_lab: Callable[..., Lab], seed: int, delay_ms: int) -> None:
    churn = Churn(new_lab(group_initial_rebalance_delay_ms=delay_ms), seed)
    for _ in range(400):
        churn.disturb()
        await churn.step()
    for _ in range(200):
        await churn.step()
        if churn.consumers and churn.is_settled():
            return
    pytest.fail(f"not settled: {[(one.name, one.generation, one.owned) for one in churn.consumers]}")
