"""Histories of a group that the coordinator assigns: its clients, the steps that they take, and how they settle.

`consumer_histories.py` and `streams_histories.py` have the clients of their kinds, and what holds of these.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kmini.protocol.errors import NotEnoughReplicas
from support.broker.consumer_lab import ConsumerLab

Step = tuple[Any, ...]
"""The name of a step, and its arguments."""

SESSIONS_MS = (12_000,) * 5
"""Rounds of heartbeats after which the sessions of crashed members are over, and all expressions are resolved."""
MOST_ROUNDS = 25
CLIENTS = 5
IS_SOAK = bool(os.environ.get("KMINI_SOAK"))


class Client(ABC):
    """A client of the group; its member id changes with its process."""

    is_running = False
    epoch = 0

    @property
    @abstractmethod
    def member_id(self) -> str: ...

    @property
    @abstractmethod
    def share(self) -> object:
        """What it was told last to have."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave for good, and end the process."""

    @abstractmethod
    def crash(self) -> None:
        """End the process without a word."""

    @abstractmethod
    async def beat(self, report: Any = ..., *, is_answered: bool = True) -> None:
        """Send a heartbeat. Without `is_answered` the connection breaks before the answer comes."""


L = TypeVar("L", bound=ConsumerLab)
C = TypeVar("C", bound=Client)


class GroupHistory(ABC, Generic[L, C]):
    """Clients of one group, and the steps that they take: a step is the method of its name, with a dash in front."""

    def __init__(self, lab: L) -> None:
        self.lab = lab
        self.clients = [self._client(number) for number in range(CLIENTS)]

    async def play(self, steps: Iterable[Step]) -> None:
        """Take the steps, then let the clients settle; check what holds after every step, and at the end."""
        self._begin()
        for name, *arguments in steps:
            await getattr(self, f"_{name}")(*arguments)
            self._check_owners()
        await self._settle()

    @abstractmethod
    def _client(self, number: int) -> C:
        """A client that does not run yet."""

    @abstractmethod
    def _begin(self) -> None:
        """Create the topics that the clients find."""

    # --- steps

    async def _leave(self, number: int) -> None:
        await self.clients[number].leave()

    async def _crash(self, number: int) -> None:
        self.clients[number].crash()

    async def _beat(self, number: int, report: Enum) -> None:
        await self.clients[number].beat(report)

    async def _lose(self, number: int, report: Enum) -> None:
        await self.clients[number].beat(report, is_answered=False)

    async def _refuse(self, number: int) -> None:
        """A heartbeat whose records cannot be appended."""
        self.lab.refuse_appends(NotEnoughReplicas("one of two"))
        await self.clients[number].beat()
        self.lab.refuse_appends(None)

    async def _all(self) -> None:
        """All clients send heartbeats at once."""
        await asyncio.gather(*(client.beat() for client in self.clients))
        await self.lab.groups.writes_done()

    async def _time(self, ms: int) -> None:
        await self.lab.pass_time(ms)

    async def _restart(self) -> None:
        """Restart the broker: everything comes back."""
        if "g" not in self.lab.groups.groups:
            return
        await self.lab.groups.writes_done()
        before = self.lab.in_memory()
        await self.lab.restart()
        assert self.lab.in_memory() == before

    # --- what holds

    @abstractmethod
    def _check_owners(self) -> None:
        """Nothing has two owners, as the coordinator sees it."""

    @abstractmethod
    def _check_settled(self, running: list[C]) -> None:
        """Everything has an owner, and all have even shares."""

    async def _settle(self) -> None:
        """Let the clients send heartbeats in peace until the group is stable."""
        for ms in SESSIONS_MS:
            await self._round(ms)
        running = [client for client in self.clients if client.is_running]
        for _ in range(MOST_ROUNDS):
            before = [(client.epoch, client.share) for client in running]
            await self._round(1_000)
            if before == [(client.epoch, client.share) for client in running] and self._is_stable():
                break
        else:
            raise AssertionError(f"the group is {self.lab.state} after {MOST_ROUNDS} rounds")
        if running:
            assert {*self.lab.group.memberships} == {client.member_id for client in running}
            self._check_settled(running)

    async def _round(self, ms: int) -> None:
        await self.lab.pass_time(ms)
        for client in self.clients:
            await client.beat()
        await self.lab.groups.writes_done()
        self._check_owners()

    def _is_stable(self) -> bool:
        return "g" not in self.lab.groups.groups or self.lab.state in ("Stable", "Empty")


# --- drawing them


def drawn_steps(weights: Mapping[str, tuple[int, st.SearchStrategy[tuple[Any, ...]]]]) -> st.SearchStrategy[Step]:
    """Steps by their names: how often each comes, among others, and its arguments."""
    names = st.sampled_from([name for name, (weight, _) in weights.items() for _ in range(weight)])
    return names.flatmap(lambda name: weights[name][1].map(lambda arguments: (name, *arguments)))


def of_histories(sample: int) -> settings:
    """The settings of a test that plays so many histories, always the same, and with KMINI_SOAK thousands of others."""
    return settings(
        max_examples=2_000 if IS_SOAK else sample,
        derandomize=not IS_SOAK,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def play(kind: type[GroupHistory[Any, Any]], lab_kind: type[ConsumerLab], history: list[Step]) -> None:
    """Play a history of this kind in a lab of its own."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as directory:
            lab = lab_kind(Path(directory))
            await lab.start()
            try:
                await kind(lab).play(history)
            finally:
                await lab.stop()

    asyncio.run(run())
