"""Faults of a broker or a cluster, which a test asks for.

    broker.faults.on("Produce", topic="orders").times(2).error("NOT_LEADER_OR_FOLLOWER")

What a rule means stands first, then on which of these requests it acts, and what it does comes last: that call puts the
rule in force as a whole. `broker/faults/` has the rules themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kmini.broker.faults.active_rules import ActiveRules
from kmini.broker.faults.rule_checks import make_rule, make_when, make_which, rules_from_json
from kmini.protocol.errors import ExpectationFailed, RequestTimedOut
from kmini.testkit.fault_draft import FaultDraft
from kmini.testkit.fault_stories import FaultStories
from kmini.testkit.handle import (
    DEADLINE_S,
    Awaiting,
    Blocking,
    Handle,
    brief,
    check_can_await,
    method,
    waits_for_clients,
)
from kmini.testkit.operations import Operations
from kmini.testkit.waiting import NotInTime

if TYPE_CHECKING:
    from kmini.broker.faults.active_rule import ActiveRule
    from kmini.broker.faults.acts import Act
    from kmini.broker.faults.matching import Asked

T = TypeVar("T")
Armed = TypeVar("Armed")


class RuleInForce(Protocol):
    """A fault rule, as its handle sees it."""

    @property
    def name(self) -> str: ...

    @property
    def hits(self) -> int: ...

    @property
    def seen(self) -> int: ...

    @property
    def held(self) -> list[str]:
        """The requests that it holds."""

    def summary(self) -> str:
        """What it has met."""

    def why(self) -> str:
        """Why it never acted, with its nearest miss."""

    def to_json(self) -> dict[str, Any]: ...

    def operations(self) -> RuleOperations:
        """The table of its operations."""


class FaultOperations:
    """The fault rules of a running broker or cluster."""

    def __init__(self, operations: Operations, rules: ActiveRules) -> None:
        self._rules = rules
        for broker in operations.running:
            rules.attach(broker)

    async def arm(self, draft: FaultDraft[Any], act: Act) -> RuleInForce:
        """Put a rule in force."""
        can = self._rules.possible()
        when = make_when(draft.api, draft.conditions, can)
        rule = make_rule(draft.name, when, make_which(draft.selection, can), [act], can)
        if draft.name is None:
            rule = make_rule(self._rules.free_name(rule.name), when, rule.which, [act], can)
        (active,) = self._rules.arm([rule])
        return RuleOperations(active, self._rules)

    async def load_rules(self, documents: object) -> Sequence[RuleInForce]:
        """Put rules in force that are given as JSON objects."""
        made = self._rules.arm(rules_from_json(documents, self._rules.possible()), replaces=True)
        return [RuleOperations(active, self._rules) for active in made]

    async def all_rules(self) -> Sequence[RuleInForce]:
        """The rules in force."""
        return [RuleOperations(active, self._rules) for active in self._rules.rules]

    async def remove_rule(self, rule: RuleInForce) -> None:
        """Take a rule back."""
        if any(active.rule.name == rule.name for active in self._rules.rules):
            self._rules.remove(rule.name)

    async def clear(self) -> None:
        """Take all rules back; requests that they hold go on."""
        self._rules.clear()

    async def unhit(self) -> list[str]:
        """The rules that never acted, each with its nearest miss, and those that were begun and have no act."""
        never = [
            f"fault rule {active.rule.name!r} never acted: {RuleOperations(active, self._rules).why()}"
            for active in self._rules.rules
            if not active.hits
        ]
        return never + [f"faults.{draft} is not in force: it {draft._lacks}" for draft in self._rules.unfinished]

    async def held(self) -> list[str]:
        """The requests that rules hold now, each with its rule."""
        return [
            f"fault rule {active.rule.name!r} holds {one.text}" for active in self._rules.rules for one in active.held
        ]

    async def assert_all_hit(self) -> None:
        """Raise AssertionError if a rule never acted; it tells each one's nearest miss."""
        never = await self.unhit()
        if never:
            raise ExpectationFailed("\n".join(never))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


class RuleOperations:
    """A rule in force in this process, and the operations of it."""

    def __init__(self, active: ActiveRule, rules: ActiveRules) -> None:
        self._active = active
        self._rules = rules

    @property
    def name(self) -> str:
        return self._active.rule.name

    @property
    def hits(self) -> int:
        return self._active.hits

    @property
    def seen(self) -> int:
        return self._active.seen

    @property
    def held(self) -> list[str]:
        return [held.text for held in list(self._active.held)]

    def summary(self) -> str:
        return self._active.summary()

    def why(self) -> str:
        if self._active.seen or self._active.matcher.came:
            return self._active.summary().removeprefix("it never acted: ")
        return f"no request that it is about came; {self._rules.nothing_came()}"

    def to_json(self) -> dict[str, Any]:
        return self._active.rule.to_json()

    def operations(self) -> RuleOperations:
        return self

    def __str__(self) -> str:
        return str(self._active.rule)

    @waits_for_clients
    async def wait_hit(self, count: int = 1, *, timeout_ms: int = 10_000) -> None:
        """Wait until the rule has acted `count` times. Raises RequestTimedOut, which is an AssertionError as well and
        tells the nearest miss."""
        await self._until(lambda: self._active.hits >= count, timeout_ms, f"did not act {_times(count)}")

    @waits_for_clients
    async def arrived(self, count: int = 1, *, timeout_ms: int = 10_000) -> None:
        """Wait until the rule has held `count` requests. Raises RequestTimedOut, which is an AssertionError as well and
        tells the nearest miss."""
        requests = f"{count} request{'' if count == 1 else 's'}"
        await self._until(lambda: self._active.arrived >= count, timeout_ms, f"did not hold {requests}")

    async def release(self, count: int | None = None) -> int:
        """Let the first `count` requests that the rule holds go on, or all of them; return how many did."""
        return self._active.release(count)

    async def _until(self, holds: Callable[[], bool], timeout_ms: int, what: str) -> None:
        try:
            await self._active.until(holds, timeout_ms, what)
        except RequestTimedOut as late:
            raise NotInTime(late.message) from None


class _Fault(Handle[RuleOperations]):
    """The methods of `Fault` and `AsyncFault`."""

    def __init__(self, faults: _Faults[Any], rule: RuleInForce) -> None:
        super().__init__(faults._thread, rule.operations)
        self._faults = faults
        self._rule = rule

    wait_hit = method(RuleOperations.wait_hit)
    arrived = method(RuleOperations.arrived)
    release = method(RuleOperations.release)

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self._rule.name

    @property
    def hits(self) -> int:
        """How often the rule has acted."""
        return self._rule.hits

    @property
    def seen(self) -> int:
        """How many requests came that the rule means, whether it acted on them or not."""
        return self._rule.seen

    @property
    def blocked(self) -> list[str]:
        """The requests that the rule holds now. Later ones of the same connections wait behind them."""
        return self._rule.held

    def assert_hit(self, times: int | None = None) -> None:
        """Raise AssertionError unless the rule has acted, exactly `times` times if that is given; it tells the nearest
        miss. It asks at once, and is not awaited."""
        __tracebackhide__ = True  # pytest shows the line of the test
        hits = self.hits
        if hits == 0 and times != 0:
            raise ExpectationFailed(f"fault rule {self.name!r} never acted: {self._rule.why()}")
        if times is not None and hits != times:
            raise ExpectationFailed(f"fault rule {self.name!r} was to act {_times(times)}: {self._rule.summary()}")

    def to_json(self) -> dict[str, Any]:
        """The rule as a JSON object, which `faults.load` takes. Raises ValueError for a rule with a Python function."""
        return self._rule.to_json()

    def __repr__(self) -> str:
        return f"<fault rule {self._rule}; hits {self.hits}, seen {self.seen}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            __tracebackhide__ = True  # pytest shows the line of the test
            if not hasattr(FaultDraft, name):
                return super().__getattr__(name)
            what = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{what}: the rule is in force already; .{name}(...) comes before what it does")


class Fault(_Fault, Blocking[RuleOperations]):
    """A fault rule in force. `with` takes it back at the end, and lets the requests go on that it holds."""

    _faults: Faults

    def remove(self) -> None:
        """Take the rule back; requests that it holds go on."""
        self._faults._run(self._faults._operations.remove_rule(self._rule))

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class AsyncFault(_Fault, Awaiting[RuleOperations]):
    """A fault rule in force; see Fault. `async with` takes it back at the end."""

    _faults: AsyncFaults

    async def remove(self) -> None:
        """Take the rule back; requests that it holds go on."""
        await self._faults._run(self._faults._operations.remove_rule(self._rule))

    async def __aenter__(self) -> AsyncFault:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.remove()


class PendingFault(Awaitable[AsyncFault]):
    """A fault rule on its way into force: `await` returns it, and `async with` takes it back at the end as well."""

    _lacks = "was not awaited"

    def __init__(self, coming: Coroutine[Any, Any, AsyncFault], shown: str, unfinished: set[Any]) -> None:
        """`shown` says which rule it is. It is among the `unfinished` until it is awaited."""
        self._coming = coming
        self._shown = shown
        self._unfinished = unfinished
        self._fault: AsyncFault | None = None
        unfinished.add(self)

    def __repr__(self) -> str:
        return self._shown

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            __tracebackhide__ = True  # pytest shows the line of the test
            raise AttributeError(
                f"the rule is not in force yet: await faults.{self._shown}, then use .{name}", name=name
            )

    def __await__(self) -> Generator[Any, Any, AsyncFault]:
        self._unfinished.discard(self)
        return self._coming.__await__()

    async def __aenter__(self) -> AsyncFault:
        self._fault = await self
        return self._fault

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fault is not None:
            await self._fault.remove()


class _Faults(FaultStories[Armed], Handle[FaultOperations]):
    """The methods of `Faults` and `AsyncFaults`."""

    _called = "faults."

    def __init__(self, host: Handle[Operations]) -> None:
        owner: Any = getattr(host, "_host", host)
        rules: ActiveRules = owner._fault_rules()
        self._unfinished = rules.unfinished
        super().__init__(host._thread, lambda: host._operations.part(FaultOperations, rules))

    clear = method(FaultOperations.clear)
    unhit = method(FaultOperations.unhit)
    held = method(FaultOperations.held)
    assert_all_hit = method(FaultOperations.assert_all_hit)

    def _arm(self, draft: FaultDraft[Any], act: Act) -> Armed:
        raise NotImplementedError

    def on(
        self,
        api: str | Sequence[str],
        *,
        name: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        version: str | None = None,
        broker: int | None = None,
        listener: str | None = None,
        principal: str | None = None,
        connection: str | None = None,
        method: str | None = None,
        subject: str | None = None,
        where: Callable[[Asked], bool] | None = None,
    ) -> FaultDraft[Armed]:
        """Begin a rule about requests of an API ("Produce"), of several, of all ("*"); about new connections
        ("connect"), TLS handshakes ("tls"), the files of the broker ("disk"), or about requests to the schema registry
        ("registry").

        It means the requests that meet every condition. Names may have `*` and `?`; `version` is "7", "<9", ">=4" or
        "3-5"; `broker` is the number of a broker of a cluster; `connection` is host:port of the client; `method`
        ("POST") and `subject` are those of a request to the registry, whose `client_id` is its User-Agent; `where` is a
        function that looks at the request. Requests that brokers of a cluster send each other are meant only if
        `client_id` or `connection` says so. The act at the end checks all of it and raises ValueError for what can
        never match.
        """
        given = {
            "topic": topic,
            "partition": partition,
            "group": group,
            "transactional_id": transactional_id,
            "client_id": client_id,
            "version": version,
            "broker": broker,
            "listener": listener,
            "principal": principal,
            "connection": connection,
            "method": method,
            "subject": subject,
            "where": where,
        }
        conditions = {key: value for key, value in given.items() if value is not None}
        return FaultDraft(self._arm, api, name, conditions, {}, self._unfinished)


class Faults(_Faults[Fault], Blocking[FaultOperations]):
    """The fault rules of a broker or a cluster."""

    def load(self, rules: Iterable[dict[str, Any]]) -> list[Fault]:
        """Put rules in force that are given as JSON objects, all at once; one whose name is taken replaces the other.
        Raises ValueError and TypeError, which say where."""
        return [Fault(self, rule) for rule in self._run(self._operations.load_rules(rules))]

    def rules(self) -> list[Fault]:
        """The rules in force, in the order in which they were made."""
        return [Fault(self, rule) for rule in self._run(self._operations.all_rules())]

    def _arm(self, draft: FaultDraft[Any], act: Act) -> Fault:
        return Fault(self, self._run(self._operations.arm(draft, act)))

    def _load_one(self, document: dict[str, Any]) -> Fault:
        return self.load([document])[0]

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine, deadline_s=DEADLINE_S)


class AsyncFaults(_Faults[PendingFault], Awaiting[FaultOperations]):
    """The fault rules of a broker or a cluster; see Faults. An act is awaited, or entered by `async with`."""

    async def load(self, rules: Iterable[dict[str, Any]]) -> list[AsyncFault]:
        """Put rules in force that are given as JSON objects, all at once; one whose name is taken replaces the other.
        Raises ValueError and TypeError, which say where."""
        return [AsyncFault(self, rule) for rule in await self._run(self._operations.load_rules(rules))]

    async def rules(self) -> list[AsyncFault]:
        """The rules in force, in the order in which they were made."""
        return [AsyncFault(self, rule) for rule in await self._run(self._operations.all_rules())]

    def _arm(self, draft: FaultDraft[Any], act: Act) -> PendingFault:
        return PendingFault(self._armed(draft, act), f"{draft}.{act.kind}(...)", self._unfinished)

    async def _armed(self, draft: FaultDraft[Any], act: Act) -> AsyncFault:
        __tracebackhide__ = True  # pytest shows the line of the test
        try:
            return AsyncFault(self, await self._run(self._operations.arm(draft, act)))
        except Exception as error:
            raise brief(error)  # noqa: B904  # it is the same error

    def _load_one(self, document: dict[str, Any]) -> PendingFault:
        return PendingFault(self._told(document), str(document["name"]), self._unfinished)

    async def _told(self, document: dict[str, Any]) -> AsyncFault:
        return (await self.load([document]))[0]

    async def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        check_can_await()
        return await self._thread.awaited(coroutine, deadline_s=DEADLINE_S)
