"""Fault rules about the schema registry beside the brokers: what they can ask of a request to it, and what they do.

Nothing of HTTP is here: the registry hands over a request and the functions that serve it and that answer an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ...protocol.errors import InvalidArgument
from .acts import Act, Disconnect, Drop, Error
from .matching import Asked

if TYPE_CHECKING:
    from .active_rule import ActiveRule

OF_REGISTRY = ("method", "subject")
"""The conditions that only these requests can meet."""

CONDITIONS = (*OF_REGISTRY, "client_id", "principal", "connection", "where")

T = TypeVar("T")


def status_of(code: int) -> int:
    """The status of HTTP of an error code: 409 of 409, and of 40901."""
    return code // 100 if code >= 1_000 else code


def check_error(act: Error) -> None:
    """Refuse an error that the registry cannot answer. Raises ValueError."""
    if not act.code.isdecimal() or status_of(int(act.code)) not in {*HTTPStatus} or status_of(int(act.code)) < 400:
        raise InvalidArgument(
            f"the schema registry cannot answer {act.code}: it answers a number, a status of HTTP from 400 on, as 503, "
            "or an error code that begins with one, as 40901"
        )
    if act.record_errors:
        raise InvalidArgument("the errors of the schema registry have no record_errors")


class RegistryClient(NamedTuple):
    """The client of a request, as `where` functions and held requests see a connection."""

    peer: tuple[str, int]
    principal: str
    is_closing: bool = False


class _Request(NamedTuple):
    name: str


class RegistryExchange:
    """A request to the registry, as the waits of rules see one."""

    def __init__(self, services: Any, client: RegistryClient, client_id: str, asked: str) -> None:
        """`services` are those of a broker; `asked` is the request in words."""
        self.context = self
        self.services = services
        self.connection = client
        self.client_id = client_id
        self.request = _Request(asked)

    def wait(self, operation: Any, *, timeout_ms: int) -> Awaitable[bool]:
        """Wait in the purgatory. The registry ends the wait when the client leaves."""
        waiting: Awaitable[bool] = self.services.purgatory.wait(operation, timeout_ms=timeout_ms, waiter=_Waiter())
        return waiting


class _Waiter:
    waiting = None
    is_closing = False


class RegistryAsked(Asked):
    """A request to the registry, as the conditions of rules see it; a `where` function gets it, too."""

    def __init__(self, exchange: Any, method: str, path: str, subject: str | None) -> None:
        super().__init__("registry", 0, exchange, None)
        self.method = method
        self.path = path
        self.subject = subject or ""


class Disconnected(Exception):
    """The connection is to be closed without an answer, and reset if `rst`."""

    def __init__(self, rule: str, *, rst: bool) -> None:
        super().__init__(f"fault rule {rule!r}")
        self.rst = rst


class FaultedCall(Generic[T]):
    """A request on which rules act, on its way to its answer."""

    def __init__(self, exchange: Any, rules: Sequence[ActiveRule]) -> None:
        """`rules` are those that act, the newest first: it decides on the answer, and waits add up."""
        self._exchange = exchange
        self._deciding: tuple[ActiveRule, Act] | None = None
        self._acting: list[ActiveRule] = []
        for active in rules:
            takes_part = False
            for act in active.rule.do:
                if not act.is_terminal or self._deciding is None:
                    takes_part = True
                if act.is_terminal and self._deciding is None:
                    self._deciding = active, act
            if takes_part:
                self._acting.append(active)
                active.acted()

    @property
    def names(self) -> list[str]:
        """The names of the rules that act."""
        return [active.rule.name for active in self._acting]

    async def answer(self, serve: Callable[[], Awaitable[T]], refuse: Callable[[int, str], T]) -> T:
        """The answer. `refuse` makes that of an error code and a message. Raises Disconnected."""
        from .active_rule import wait_at

        await wait_at("before", self._exchange, self._acting)
        answer = await self._decided(serve, refuse)
        await wait_at("after", self._exchange, self._acting)
        await self._end()
        return answer

    async def _decided(self, serve: Callable[[], Awaitable[T]], refuse: Callable[[int, str], T]) -> T:
        if self._deciding is None:
            return await serve()
        active, act = self._deciding
        if isinstance(act, Error):
            if act.applied:
                await serve()
            return refuse(int(act.code), act.message or f"fault rule {active.rule.name!r}")
        if isinstance(act, (Drop, Disconnect)) and not act.applied:
            return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "")  # it is not sent
        return await serve()

    async def _end(self) -> None:
        from .active_rule import FOR_EVER_MS, Never

        if self._deciding is None:
            return
        active, act = self._deciding
        if isinstance(act, Drop):
            await self._exchange.context.wait(Never(), timeout_ms=FOR_EVER_MS)
        elif isinstance(act, Disconnect):
            raise Disconnected(active.rule.name, rst=act.rst)
