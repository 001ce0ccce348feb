"""The requests that the broker serves: message, versions, coroutine, permissions and guard, bound in one place.

Dispatch, the ApiVersions answer, authorization and the reference page are all read from here.
`broker/handlers/__init__.py` lists the modules that register themselves.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...protocol.schema import Request, Response
from ..security.permissions import OPEN, Open, Permission
from .releases import ADVERTISED_FLOORS, Release

if TYPE_CHECKING:
    from .request_context import Context

R = TypeVar("R", bound=Request)
HandlerFunction = Callable[[R, "Context"], Awaitable[Response | None]]
Guard = Callable[[Any], Awaitable[Any]]
"""A coroutine that takes a `security.guarding.Call` and returns the answer."""


class Handler(NamedTuple):
    """One API: its request, the versions served, the coroutine that answers, and what a client needs to be served.

    The coroutine returns None where no answer is due (acks=0).
    """

    request: type[Request]
    function: Callable[..., Awaitable[Response | None]]
    min_version: int
    max_version: int
    advertised_min: int
    """The lowest version in the ApiVersions answer. Below `min_version` only for Produce: clients judge a broker by a
    version that they do not use (KAFKA-18659)."""
    needs: tuple[Permission, ...] = ()
    """The permissions in the order in which the guard asks for them; none for a request open to every client."""
    guard: Guard | None = None
    """Stands between request and coroutine where an authorizer is configured."""


_handlers: dict[int, Handler] = {}


def handles(
    request: type[R], *, needs: Sequence[Permission] | Open, guard: Guard | None = None, versions: str | None = None
) -> Callable[[HandlerFunction[R]], HandlerFunction[R]]:
    """Bind a coroutine to a request, in `versions` ("3-13"; by default all that the message has).

    `needs` are the permissions that `guard` asks for (`security/guarding.py` has the common guards), or OPEN. No
    request is open by mistake: raises ValueError when `needs` is empty or has no guard, and when the API has a handler
    already.
    """
    low, high = (request.min_version, request.max_version) if versions is None else map(int, versions.split("-"))
    if needs is not OPEN and not needs:
        raise ValueError(f"{request.name} states no permission: give those that it needs, or OPEN")
    if needs is not OPEN and guard is None:
        raise ValueError(f"{request.name} needs permissions and has no guard to ask for them")

    def bind(function: HandlerFunction[R]) -> HandlerFunction[R]:
        if request.api_key in _handlers:
            raise ValueError(f"{request.name} is handled twice")
        permissions = () if needs is OPEN else tuple(needs)
        _handlers[request.api_key] = Handler(request, function, low, high, low, permissions, guard)
        return function

    return bind


def registered() -> dict[int, Handler]:
    """The handlers by API key. `broker.handlers.HANDLERS` are all of them, with their modules imported."""
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
            advertised_min = ADVERTISED_FLOORS.get(api_key, low)
            narrowed[api_key] = handler._replace(min_version=low, max_version=high, advertised_min=advertised_min)
    return narrowed
