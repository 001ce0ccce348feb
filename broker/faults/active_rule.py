"""A fault rule in force: what it has met, and the requests that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...protocol.errors import RequestTimedOut
from ..purgatory import Operation
from .acts import Delay, Hold, Silent
from .matching import Asked, Matcher, means_entry
from .rule import Rule
from .rule_counts import RuleCounts

if TYPE_CHECKING:
    from ..api.interception import Exchange
    from .prefilter import Screen

FOR_EVER_MS = 1 << 40
"""Milliseconds of a wait that ends by itself only with its connection."""


class ActiveRule:
    """A rule in force: what it has met, and the requests that it holds."""

    def __init__(self, rule: Rule, *, seed: int, now_ms: Callable[[], int]) -> None:
        self.rule = rule
        self.matcher = Matcher(rule)
        self.screens: list[Screen] = []
        """The looks that let requests of its API pass, because it cannot mean them."""
        self.counts = RuleCounts(rule, seed=seed, now_ms=now_ms())
        which = rule.which
        self.chance_seed = None if which.probability is None else seed if which.seed is None else which.seed
        """The seed by which it draws; None if it does not act by chance."""
        self.is_removed = False
        self.held: list[HeldRequest] = []
        """The requests that wait for `release`, in the order of their arrival."""
        self.arrived = 0
        """Requests that it has held so far."""
        self.means_entry = means_entry(rule.when)
        """Whether it means an entry of a request, or a file, of this topic and partition; None for all."""
        self.when_removed: list[Callable[[], None]] = []
        """What ends with the rule: the silence of connections."""
        self._now_ms = now_ms
        self._watchers: list[asyncio.Future[None]] = []

    @property
    def hits(self) -> int:
        return self.counts.hits

    @property
    def seen(self) -> int:
        return self.counts.seen

    @property
    def is_over(self) -> bool:
        """Whether it acts on nothing more: it has acted as often as it was to, or its time has passed."""
        return self.counts.is_over(self._now_ms())

    def takes(self, asked: Asked) -> bool:
        """Count a request of its API; return whether the rule is to act on it."""
        if not self.matcher.means(asked):
            return False
        taken = self.counts.takes(self._now_ms())
        self.changed()
        return taken

    def takes_operation(self) -> bool:
        """Count an operation on a file that it means; return whether it acts on it, and count that as well. Called by
        any thread."""
        if not self.counts.takes(self._now_ms()):
            return False
        self.counts.acted()
        for watcher in self._watchers[:1]:  # all have the loop of the broker
            watcher.get_loop().call_soon_threadsafe(self.changed)
        return True

    def acted(self) -> None:
        """Count an act."""
        self.counts.acted()
        self.changed()

    # --- holding

    async def hold(self, exchange: Exchange) -> None:
        """Keep a request back until it is released, or its client leaves."""
        if self.is_removed:
            return
        held = HeldRequest(exchange)
        self.held.append(held)
        self.arrived += 1
        self.changed()
        try:
            await exchange.context.wait(held, timeout_ms=FOR_EVER_MS)
        finally:
            if held in self.held:
                self.held.remove(held)
            self.changed()

    def release(self, count: int | None = None) -> int:
        """Let the first `count` held requests go on, or all; return how many did."""
        released = self.held[:count]
        for held in released:
            self.held.remove(held)
            held.release()
        self.changed()
        return len(released)

    def remove(self) -> None:
        """Act on nothing more, and let what it holds go on."""
        self.is_removed = True
        self.counts.end()
        self.release()
        for end in self.when_removed:
            end()
        self.when_removed.clear()

    # --- what it has met

    def changed(self) -> None:
        """Wake what waits for this rule."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def until(self, holds: Callable[[], bool], timeout_ms: int, what: str) -> None:
        """Wait until a condition about this rule holds. Raises RequestTimedOut, which says what came instead."""
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        while not holds():
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            try:
                if holds():  # a thread has counted an operation on a file meanwhile
                    return
                left_s = deadline_s - asyncio.get_running_loop().time()
                done, _ = await asyncio.wait([watcher], timeout=max(left_s, 0))
            finally:
                if watcher in self._watchers:
                    self._watchers.remove(watcher)
            if not done and not holds():
                raise RequestTimedOut(f"fault rule {self.rule.name!r} {what} after {timeout_ms} ms; {self.summary()}")

    def summary(self) -> str:
        """What the rule has met: "never acted: ..." with the nearest miss, or its counts."""
        if self.hits:
            return f"it acted {_times(self.hits)} on {_requests(self.seen)} that it means"
        if self.matcher.failure is not None:
            return f"it never acted: its where function raised {self.matcher.failure!r}"
        if self.seen:
            why = self.counts.why_never(self._now_ms())
            return f"it never acted: it means {_requests(self.seen)} that came, but {why}"
        passed = sum(screen.passed for screen in self.screens)
        return f"it never acted: {self.matcher.nearest(passed) or 'nothing that it is about came'}"


class HeldRequest(Operation):
    """A request that waits for its release."""

    __slots__ = ("_is_released", "_purgatory", "text")
    what = "held by a fault rule"

    def __init__(self, exchange: Exchange) -> None:
        context = exchange.context
        host, port = context.connection.peer
        self.text = f"{exchange.request.name} of {context.client_id or 'a client'} ({host}:{port})"
        self._purgatory = context.services.purgatory
        self._is_released = False

    @property
    def keys(self) -> tuple[object]:
        return (self,)

    def is_complete(self) -> bool:
        return self._is_released

    def release(self) -> None:
        """Let it go on."""
        self._is_released = True
        self._purgatory.check(self)


class Never(Operation):
    """Never complete: what waits for it waits as long as it may."""

    __slots__ = ()
    keys = ()
    what = "kept back by a fault rule"

    def is_complete(self) -> bool:
        return False


async def pause(exchange: Exchange, ms: int) -> None:
    """Let time pass before a request goes on. It ends with the connection."""
    if ms > 0:
        await exchange.context.wait(Never(), timeout_ms=ms)


async def wait_at(place: str, exchange: Exchange, rules: Iterable[ActiveRule]) -> None:
    """The waits of these rules before a request is served, or after it: delays add up, then holds."""
    rules = list(rules)
    delay_ms = 0
    for active in rules:
        for act in active.rule.do:
            if isinstance(act, Delay) and act.when == place:
                delay_ms += act.ms + active.counts.jitter_ms(act.jitter)
    await pause(exchange, delay_ms)
    for active in rules:
        for act in active.rule.do:
            if (isinstance(act, Hold) and act.when == place) or (isinstance(act, Silent) and place == "before"):
                await active.hold(exchange)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _requests(count: int) -> str:
    return f"{count} request" + ("s" if count > 1 else "")
