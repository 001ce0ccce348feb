"""The guard between a request and its handler where an authorizer is configured, and the shapes that guards share.

A guard takes out of the request what the client may not do, lets the handler do the rest, and adds the refusals to the
answer; or it takes out of the answer what the client may not see. Each handler's module has its own guard, or names one
from here. The handler does not know of it, and without an authorizer no guard runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from ...protocol.schema import Response
from ..api.registry import Guard, Handler, loaded
from ..api.request_context import Context
from .authorizer import Access, Authorizer
from .permission_kinds import Permission
from .resources import CLUSTER_NAME, AclOperation, ResourceType

T = TypeVar("T")
Serve = Callable[[Any, Context], Awaitable[Any]]

NO_OPERATIONS = 0


class Call(NamedTuple):
    """One request on its way to its handler."""

    request: Any
    context: Context
    access: Access
    permissions: tuple[Permission, ...]
    """The permissions of the handler's registration, in its order."""
    handler: Serve

    async def serve(self) -> Any:
        """Let the handler do what is left of the request."""
        return await self.handler(self.request, self.context)

    def may(self, permission: Permission, name: str = CLUSTER_NAME, *, is_logged: bool = True) -> bool:
        """Whether the client has a permission on the resource `name`, which is not needed for the cluster.

        A refusal is logged if `is_logged`.
        """
        resource = CLUSTER_NAME if permission.resource_type is ResourceType.CLUSTER else name
        return self.access.may(permission.operation, permission.resource_type, resource, is_logged=is_logged)

    def demand(self, permission: Permission, name: str = CLUSTER_NAME) -> None:
        """Raise the permission's error unless the client has it."""
        if not self.may(permission, name):
            raise permission.refusal

    def split(
        self, permission: Permission, elements: Iterable[T], name_of: Callable[[T], str | None]
    ) -> tuple[list[T], list[T]]:
        """The elements that are allowed, and those that are not. The handler judges an element without a name."""
        known: dict[str | None, bool] = {None: True}
        allowed: list[T] = []
        denied: list[T] = []
        for element in elements:
            name = name_of(element)
            if name not in known:
                known[name] = name is not None and self.may(permission, name)
            (allowed if known[name] else denied).append(element)
        return allowed, denied

    def topic_name(self, topic: Any, name: str | None) -> str | None:
        """The topic that an element of the request is about: by `name`, or by its id where it has one; None for an
        unknown id."""
        topic_id: bytes = getattr(topic, "topic_id", b"")
        if name or not any(topic_id):
            return name
        found = self.context.services.controller.topic_by_id(topic_id)
        return None if found is None else found.name

    def cluster_operations(self) -> int:
        """The operations that the client may do to the cluster, as bits (KIP-430); none if it may not describe it."""
        if not self.access.may_on_cluster(AclOperation.DESCRIBE):
            return NO_OPERATIONS
        return self.access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


# --- guards that several requests have


def demands(*fields: str) -> Guard:
    """The guard that raises the error of the first permission the client lacks. Each field of the request names the
    resource of one permission."""

    async def guard(call: Call) -> Any:
        for permission, field in zip(call.permissions, fields, strict=True):
            call.demand(permission, getattr(call.request, field))
        return await call.serve()

    return guard


def on_cluster(refused: Callable[[Any, int], Response]) -> Guard:
    """The guard of a request that needs one permission on the cluster, as a whole. `refused` makes the answer to a
    request without it, from the request and the error code."""

    async def guard(call: Call) -> Any:
        (permission,) = call.permissions
        if call.may(permission):
            return await call.serve()
        return refused(call.request, permission.code)

    return guard


def refused_by_code(response: type[Response]) -> Callable[[Any, int], Response]:
    """For `on_cluster`: an answer with an error code and nothing else."""
    return lambda request, code: response(error_code=code)


def topic_by_topic(refused: Callable[[Any, int], Any], *, answers: str = "topics") -> Guard:
    """The guard that asks the last permission about each of the request's `topics`. `refused` makes the answer about a
    refused topic, from it and the error code; the response's field `answers` gets it."""

    async def guard(call: Call) -> Any:
        permission = call.permissions[-1]
        request = call.request
        request.topics, denied = call.split(permission, request.topics, lambda topic: topic.name)
        answer = await call.serve()
        getattr(answer, answers).extend(refused(topic, permission.code) for topic in denied)
        return answer

    return guard


def refused_partitions(answer: Any) -> Callable[[Any, int], Any]:
    """How to refuse a topic in a response whose topics are `answer`, where request and response both have
    `partitions` with a `partition_index` each."""
    return lambda topic, code: answer(
        name=topic.name,
        partitions=[
            answer.Partition(partition_index=part.partition_index, error_code=code) for part in topic.partitions
        ],
    )


# --- putting guards in place


def guarded(handlers: Mapping[int, Handler], authorizer: Authorizer) -> dict[int, Handler]:
    """The handlers, each behind its guard."""
    return {api_key: _behind_guard(handler, authorizer) for api_key, handler in loaded(handlers).items()}


def _behind_guard(handler: Handler, authorizer: Authorizer) -> Handler:
    guard, permissions, function = handler.guard, handler.needs, handler.function
    if guard is None:
        return handler

    async def serve(request: Any, context: Context) -> Any:
        connection = context.connection
        access = authorizer.access_of(connection.principal, connection.peer[0])
        return await guard(Call(request, context, access, permissions, function))

    return handler.answered_by(serve)
