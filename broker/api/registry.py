"""The requests that the broker serves: message, versions, function, permissions and guard, bound in one place.

Dispatch, the ApiVersions answer, authorization and the reference page are all read from here.
`served_versions.py` lists the modules of `broker/handlers/`, which register themselves when they are imported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.messages import MODULES
from ...protocol.schema import Request, Response
from ..security.permission_kinds import OPEN, Open, Permission
from .releases import ADVERTISED_FLOORS, Release, Versions

if TYPE_CHECKING:
    from .request_context import Context

R = TypeVar("R", bound=Request)
HandlerFunction = Callable[[R, "Context"], Awaitable[Response | None]]
Guard = Callable[[Any], Awaitable[Any]]
"""A coroutine that takes a `security.guarding.Call` and returns the answer."""


class Handler:
    """One API: its request, the versions served, the function that answers, and what a client needs to be served.

    The list of handlers gives the versions. The rest is there once `load` has imported the handler's module: the
    dispatcher does so with the first request, because a broker starts sooner without the modules that no client needs
    yet. The function returns a coroutine, as every `async def` does. The coroutine returns None where no answer is due
    (acks=0).
    """

    __slots__ = (
        "advertised_min",
        "api_key",
        "function",
        "guard",
        "max_version",
        "min_version",
        "module",
        "needs",
        "request",
    )
    request: type[Request]
    function: Callable[..., Awaitable[Response | None]]
    needs: tuple[Permission, ...]
    """The permissions in the order in which the guard asks for them; none for a request open to every client."""
    guard: Guard | None
    """Stands between request and function where an authorizer is configured."""

    def __init__(self, module: str, api_key: int, versions: Versions, advertised_min: int) -> None:
        self.module = module
        self.api_key = api_key
        self.min_version, self.max_version = versions
        self.advertised_min = advertised_min
        """The lowest version in the ApiVersions answer. Below `min_version` only for Produce: clients judge a broker by
        a version that they do not use (KAFKA-18659)."""

    def load(self) -> Handler:
        """Import the module, unless that is done, and take over what it registers. Returns this handler."""
        if not self.is_bound:
            import_module(self.module)
            registered = _handlers[self.api_key]
            if registered is not self:
                self.bind(registered.request, registered.function, registered.needs, registered.guard)
        return self

    def bind(
        self,
        request: type[Request],
        function: Callable[..., Awaitable[Response | None]],
        needs: tuple[Permission, ...],
        guard: Guard | None,
    ) -> None:
        """Set what the module has registered."""
        self.request = request
        self.function = function
        self.needs = needs
        self.guard = guard

    @property
    def is_bound(self) -> bool:
        """Whether the handler has what its module registers."""
        return hasattr(self, "request")

    def in_versions(self, versions: Versions, advertised_min: int) -> Handler:
        """The same handler for other versions."""
        return Handler(self.module, self.api_key, versions, advertised_min)

    def answered_by(self, function: Callable[..., Awaitable[Response | None]]) -> Handler:
        """The same handler with another function, loaded."""
        self.load()
        other = self.in_versions(Versions(self.min_version, self.max_version), self.advertised_min)
        other.bind(self.request, function, self.needs, self.guard)
        return other


_handlers: dict[int, Handler] = {}


def listed(package: str, versions: Mapping[str, str]) -> dict[int, Handler]:
    """List the handlers of a package: by module, the versions that it serves ("3-13"). Returns all handlers by API key.

    A module has the name of the module of its messages, and is imported when its handler is used.
    """
    api_keys = {module: api_key for api_key, module in MODULES.items()}
    for module, text in versions.items():
        served = Versions(*map(int, text.split("-")))
        _handlers[api_keys[module]] = Handler(f"{package}.{module}", api_keys[module], served, served.min)
    return _handlers


def handles(
    request: type[R], *, needs: Sequence[Permission] | Open, guard: Guard | None = None
) -> Callable[[HandlerFunction[R]], HandlerFunction[R]]:
    """Bind a function that returns a coroutine to a request, in the versions that the list of handlers says.

    `needs` are the permissions that `guard` asks for (`security/guarding.py` has the common guards), or OPEN. No
    request is open by mistake: raises ValueError when `needs` is empty or has no guard. Raises it, too, when the API
    has a handler already or is not listed, and when the message does not have the listed versions.
    """
    if needs is not OPEN and not needs:
        raise ValueError(f"{request.name} states no permission: give those that it needs, or OPEN")
    if needs is not OPEN and guard is None:
        raise ValueError(f"{request.name} needs permissions and has no guard to ask for them")

    def bind(function: HandlerFunction[R]) -> HandlerFunction[R]:
        handler = _handlers.get(request.api_key)
        if handler is None:
            raise ValueError(f"{request.name} is not in the list of handlers")
        if handler.is_bound:
            raise ValueError(f"{request.name} is handled twice")
        for version in (handler.min_version, handler.max_version):
            request.check_version(version)
        handler.bind(request, function, () if needs is OPEN else tuple(needs), guard)
        return function

    return bind


def loaded(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """The handlers by API key, all of them with what their modules register."""
    return {api_key: handler.load() for api_key, handler in handlers.items()}


def registered() -> dict[int, Handler]:
    """The handlers by API key: those that `broker.handlers` lists."""
    return _handlers


def served(handlers: dict[int, Handler], release: Release | None = None) -> dict[int, Handler]:
    """The handlers of a broker by API key: all, or what a release of Apache Kafka has of them."""
    if release is None:
        return handlers
    narrowed = {}
    for api_key, handler in handlers.items():
        versions = release.versions.get(api_key)
        if versions is None:
            continue
        low, high = max(handler.min_version, versions.min), min(handler.max_version, versions.max)
        if low <= high:
            narrowed[api_key] = handler.in_versions(Versions(low, high), ADVERTISED_FLOORS.get(api_key, low))
    return narrowed
