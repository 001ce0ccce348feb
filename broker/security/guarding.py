"""What stands between a request and its handler where access rules are on.

A guard takes out of the request what the client may not do, has the handler do the rest, and puts the refusals into the
answer; or takes out of the answer what the client may not see. Handlers know nothing of it, and where no authorizer is
configured nothing of this runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...protocol.schema import Request
from ..api.registry import Handler
from ..api.request_context import Context
from .permissions import OPEN, Permission, permissions_of
from .resources import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from .authorizer import Access, Authorizer

T = TypeVar("T")
Serve = Callable[[Any, Context], Awaitable[Any]]


class Call(NamedTuple):
    """One request on its way. `request` and `context` are as specific as the guard knows them to be."""

    request: Any
    context: Any
    access: Access
    permissions: tuple[Permission, ...]
    """The lines of the table for this API, in its order."""
    handler: Serve

    async def serve(self) -> Any:
        """Have the handler do what is left of the request."""
        return await self.handler(self.request, self.context)

    def may(self, permission: Permission, name: str = CLUSTER_NAME, *, tells: bool = True) -> bool:
        """Whether the client has a permission; `name` matters for all but the cluster."""
        resource = CLUSTER_NAME if permission.resource_type is ResourceType.CLUSTER else name
        return self.access.may(permission.operation, permission.resource_type, resource, tells=tells)

    def demand(self, permission: Permission, name: str = CLUSTER_NAME) -> None:
        """Raise the permission's error unless the client has it."""
        if not self.may(permission, name):
            raise permission.refusal

    def split(
        self, permission: Permission, elements: Iterable[T], name_of: Callable[[T], str | None]
    ) -> tuple[list[T], list[T]]:
        """Which elements are allowed, and which are not. One without a name is for the handler to judge."""
        known: dict[str | None, bool] = {None: True}
        allowed: list[T] = []
        denied: list[T] = []
        for element in elements:
            name = name_of(element)
            if name not in known:
                known[name] = name is not None and self.may(permission, name)
            (allowed if known[name] else denied).append(element)
        return allowed, denied

    def topic_name(self, topic: Any, name: str) -> str | None:
        """The topic that an element of the request is about, by `name`, or by its id where it has one; None for an id
        that there is not."""
        topic_id: bytes = getattr(topic, "topic_id", b"")
        if name or not any(topic_id):
            return name
        found = self.context.broker.controller.topic_by_id(topic_id)
        return None if found is None else found.name


Guard = Callable[[Call], Awaitable[Any]]

_guards: dict[int, Guard] = {}


def guards(request: type[Request]) -> Callable[[Guard], Guard]:
    """Bind a guard to an API."""

    def bind(guard: Guard) -> Guard:
        _guards[request.api_key] = guard
        return guard

    return bind


def guarded(handlers: Mapping[int, Handler], authorizer: Authorizer) -> dict[int, Handler]:
    """The handlers, each behind its guard. LookupError for one that has none and needs one: nothing is open by
    mistake."""
    from . import guards_cluster, guards_groups, guards_topics, guards_transactions  # noqa: F401  (they register)

    found = {}
    for api_key, handler in handlers.items():
        guard = _guards.get(api_key)
        if guard is not None:
            handler = handler._replace(function=_behind(guard, handler, authorizer))
        elif handler.request.name not in OPEN:
            raise LookupError(f"nothing says who may send {handler.request.name}")
        found[api_key] = handler
    return found


def _behind(guard: Guard, handler: Handler, authorizer: Authorizer) -> Serve:
    permissions = permissions_of(handler.request.name)
    function = handler.function

    async def serve(request: Any, context: Context) -> Any:
        connection = context.connection
        access = authorizer.access_of(connection.principal, connection.peer[0])
        return await guard(Call(request, context, access, permissions, function))

    return serve
