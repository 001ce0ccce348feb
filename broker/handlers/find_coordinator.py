"""FindCoordinator, versions 0 to 6: find the broker that coordinates a group or a transactional id.

It leads the group's partition of `__consumer_offsets`, the transactional id's of `__transaction_state`, or the share
partition's of `__share_group_state` (KIP-932; only for brokers). The first
request creates that topic, and is answered when it exists; Apache Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile,
and its clients ask again. A request has one key before version 4, and many from version 4 on (KIP-699), each with its
own outcome. The key of a share partition is `group:topic id:partition`, from version 6 on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.errors import NONE, CoordinatorNotAvailable, GroupIdNotFound, InvalidRequest, KafkaError
from ...protocol.messages.find_coordinator import (
    GROUP,
    SHARE,
    TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ...protocol.uuids import parse_uuid
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import CLUSTER_NAME, AclOperation, ResourceType

BATCHED_SINCE = 4
SHARE_SINCE = 6

Coordinator = FindCoordinatorResponse.Coordinator


async def guard(call: Call) -> Any:
    """Ask for DESCRIBE on the group or transactional id of each key."""
    request = call.request
    permission = dict(zip((GROUP, TRANSACTION, SHARE), call.permissions, strict=True)).get(request.key_type)
    if permission is None:  # there is no such type
        return await call.serve()
    if call.context.version < BATCHED_SINCE:
        call.demand(permission, request.key)
        return await call.serve()
    is_share = request.key_type == SHARE
    name_of: Callable[[str], str] = (lambda key: CLUSTER_NAME) if is_share else (lambda key: key)
    request.coordinator_keys, denied = call.split(permission, request.coordinator_keys, name_of)
    answer: FindCoordinatorResponse = await call.serve()
    answer.coordinators += [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=permission.code, error_message=None)
        for key in denied
    ]
    return answer


@handles(
    FindCoordinatorRequest,
    needs=[
        each(AclOperation.DESCRIBE, ResourceType.GROUP),
        each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, when="for a share partition"),
    ],
    guard=guard,
)
async def find_coordinator(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """Find the coordinator of each key."""
    if context.version < BATCHED_SINCE:
        found = _find(request.key, request.key_type, context)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    turn = Turn()
    coordinators = []
    for key in request.coordinator_keys:
        if turn.is_over:
            await turn.next()
        coordinators.append(_find(key, request.key_type, context))
    return FindCoordinatorResponse(coordinators=coordinators)


def _find(key: str, key_type: int, context: Context) -> FindCoordinatorResponse.Coordinator:
    try:
        node_id = _node_of(key, key_type, context)
        host, port = _address_of(node_id, context)
    except KafkaError as error:
        return Coordinator(key=key, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=NONE)


def _address_of(node_id: int, context: Context) -> tuple[str, int]:
    address = context.advertised().get(node_id)
    if address is None:
        raise CoordinatorNotAvailable(f"broker {node_id} cannot be reached now")
    return address


def _note_search(group_id: str, context: Context) -> None:
    """Note a search for the coordinator of a group, if this broker is it."""
    groups = context.services.groups
    try:
        groups.find(group_id)
        exists = True
    except GroupIdNotFound:
        exists = False
    except KafkaError:  # another broker is, or the group is being loaded
        return
    groups.searches.note(group_id, context.client_id, context.connection.peer[0], exists=exists)


def _node_of(key: str, key_type: int, context: Context) -> int:
    if key_type == GROUP:
        node_id = context.services.groups.store.coordinator_of(key)
        _note_search(key, context)
        return node_id
    if key_type == TRANSACTION:
        return context.services.transactions.store.topic.coordinator_of(key)
    if key_type == SHARE and context.version >= SHARE_SINCE:
        _check_share_key(key)
        return context.services.share_state_topic.coordinator_of(key)
    raise InvalidRequest(f"key type {key_type} has no coordinator here")


def _check_share_key(key: str) -> None:
    """Raise InvalidRequest unless this is `group:topic id:partition`; the group id may have colons."""
    group_id, topic_id, partition = ("", "", "", *key.rsplit(":", 2))[-3:]
    try:
        parse_uuid(topic_id)
    except ValueError:
        group_id = ""
    if not group_id or not partition.isascii() or not partition.isdecimal():
        raise InvalidRequest(f"{key!r} is no key of a share partition: group:topic id:partition is expected")
