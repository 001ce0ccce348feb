"""Which requests the broker serves: message, versions and coroutine, bound in one place.

Dispatch, the ApiVersions answer and the support table in the docs are all read from here.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...protocol.schema import Request, Response
from .releases import ADVERTISED_FLOORS, Release

if TYPE_CHECKING:
    from .request_context import Context

R = TypeVar("R", bound=Request)
HandlerFunction = Callable[[R, "Context"], Awaitable[Response | None]]


class Handler(NamedTuple):
    """One API: what it decodes, in which versions, and the coroutine that answers. None as answer means: none is due
    (acks=0)."""

    request: type[Request]
    function: Callable[..., Awaitable[Response | None]]
    min_version: int
    max_version: int
    advertised_min: int
    """What ApiVersions says. Below `min_version` only where clients judge a broker by a version that nobody uses
    (KAFKA-18659)."""


_handlers: dict[int, Handler] = {}


def handles(request: type[R], *, versions: str | None = None) -> Callable[[HandlerFunction[R]], HandlerFunction[R]]:
    """Bind a coroutine to a request, in `versions` ("3-13"; by default all that the message has).

    Raises ValueError when the API has a handler already.
    """
    low, high = (request.min_version, request.max_version) if versions is None else map(int, versions.split("-"))

    def bind(function: HandlerFunction[R]) -> HandlerFunction[R]:
        if request.api_key in _handlers:
            raise ValueError(f"{request.name} is handled twice")
        _handlers[request.api_key] = Handler(request, function, low, high, advertised_min=low)
        return function

    return bind


def registered() -> dict[int, Handler]:
    """All handlers, by API key."""
    from .. import handlers as _all_modules  # noqa: F401  (importing them registers them)

    return _handlers


def served(release: Release | None = None) -> dict[int, Handler]:
    """The handlers of a broker by API key: all, or what there is of them in a release of Apache Kafka."""
    handlers = registered()
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
