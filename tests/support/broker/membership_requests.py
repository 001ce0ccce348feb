"""Requests of members of the group "g"."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import error_name
from kmini.protocol.messages.heartbeat import HeartbeatRequest
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.messages.leave_group import LeaveGroupRequest
from kmini.protocol.messages.sync_group import SyncGroupRequest

Ask = Callable[..., Awaitable[Any]]


SESSION_MS = 10_000


def join(member_id: str = "", *, metadata: bytes = b"wishes", **fields: Any) -> JoinGroupRequest:
    wanted = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    }
    return JoinGroupRequest(**{**wanted, **fields})


def sync(member_id: str, generation: int = 1, **fields: Any) -> SyncGroupRequest:
    shares = [SyncGroupRequest.Assignment(member_id=member_id, assignment=b"share")]
    return SyncGroupRequest(
        **{
            "group_id": "g",
            "generation_id": generation,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": shares,
            **fields,
        }
    )


def heartbeat(member_id: str, generation: int = 1, **fields: Any) -> HeartbeatRequest:
    return HeartbeatRequest(**{"group_id": "g", "generation_id": generation, "member_id": member_id, **fields})


def leave(*members: str | tuple[str, str | None], version: int = 5) -> LeaveGroupRequest:
    if version < 3:
        (member_id,) = members
        return LeaveGroupRequest(group_id="g", member_id=member_id)
    pairs = [(member, None) if isinstance(member, str) else member for member in members]
    return LeaveGroupRequest(
        group_id="g",
        members=[LeaveGroupRequest.Member(member_id=name, group_instance_id=instance) for name, instance in pairs],
    )


async def joined(ask: Ask, broker: BrokerServer, version: int, **fields: Any) -> Any:
    """The answer to a member that joins, the second time if need be."""
    answer = await ask(broker, join(**fields), version)
    if error_name(answer.error_code) == "MEMBER_ID_REQUIRED":
        answer = await ask(broker, join(answer.member_id, **fields), version)
    return answer
