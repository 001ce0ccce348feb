"""Requests of the group protocol, with kafka-python's classes, and a group of connections that speak it in a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from support.transcript import Transcript
from support.until import until
from support.wire import Wire

LATEST = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "LeaveGroup": 5}

NOT_YET = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""

_GENERATED = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def wish(*topics: str) -> bytes:
    """A subscription of a consumer. (Anything else in its place makes Apache Kafka 4.3 leave the group unanswered.)"""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: Mapping[str, bytes] | Sequence[tuple[str, bytes]] = (("range", wish("orders")),),
    session_ms: int = 30_000,
    rebalance_ms: int = 60_000,
    protocol_type: str = "consumer",
) -> Any:
    Protocol = JoinGroupRequest.JoinGroupRequestProtocol
    pairs = protocols.items() if isinstance(protocols, Mapping) else protocols
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[Protocol(name=name, metadata=metadata) for name, metadata in pairs],
        reason=None,
    )


def sync(
    group: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol: tuple[str | None, str | None] = ("consumer", "range"),
) -> Any:
    Assignment = SyncGroupRequest.SyncGroupRequestAssignment
    shares = [Assignment(member_id=name, assignment=share) for name, share in (assignments or {}).items()]
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol[0],
        protocol_name=protocol[1],
        assignments=shares,
    )


def heartbeat(group: str, member_id: str, generation: int, *, instance: str | None = None) -> Any:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


def leave(group: str, *members: str | tuple[str, str | None], version: int = 5) -> Any:
    """Members by id, or with an instance id."""
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=members[0])
    Identity = LeaveGroupRequest.MemberIdentity
    pairs = [(member, None) if isinstance(member, str) else member for member in members]
    return LeaveGroupRequest(
        group_id=group,
        members=[Identity(member_id=name, group_instance_id=instance, reason=None) for name, instance in pairs],
    )


def describe(*groups: str, operations: bool = False) -> Any:
    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)


def list_groups(states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
    return ListGroupsRequest(states_filter=list(states), types_filter=list(types))


def delete_groups(*groups: str) -> Any:
    return DeleteGroupsRequest(groups_names=list(groups))


def await_coordinator(wire: Wire, *groups: str) -> None:
    """Return when a server coordinates groups and has loaded them; the first question makes the topic for them."""
    for group in groups:
        until(partial(_is_loaded, wire, group), f"a coordinator that has loaded {group}")


def _is_loaded(wire: Wire, group: str) -> bool:
    if wire.ask(FindCoordinatorRequest(key=group, key_type=0), 1).error_code:
        return False
    (described,) = wire.ask(describe(group), 0).groups
    return described.error_code not in NOT_YET


class Cast:
    """The members of one group, each with a connection of its own, in a script that is played to two servers.

    Member ids are the server's; the script, and what it notes, has names.
    """

    def __init__(self, transcript: Transcript, suffix: str = "") -> None:
        self.transcript = transcript
        self.group = f"{transcript.topic}{suffix}"
        self._prefix = f"{suffix[1:]}: " if suffix else ""
        self.ids: dict[str, str] = {}
        self._wires: dict[str, Wire] = {}
        self._asked: dict[str, Any] = {}
        await_coordinator(self._wire("script"), self.group)

    def close(self) -> None:
        for wire in self._wires.values():
            wire.socket.close()

    def _wire(self, name: str) -> Wire:
        if name not in self._wires:
            server = self.transcript.server
            self._wires[name] = Wire(server.host, server.port)
        return self._wires[name]

    def ask(self, what: str, request: Any, version: int | None = None, *, name: str = "script") -> Any:
        """Ask over the connection of `name`, note the answer, and return it."""
        self.begin(request, version, name=name)
        return self.end(what, name=name)

    def begin(self, request: Any, version: int | None = None, *, name: str) -> None:
        """Ask, and leave the answer for `end`."""
        api = type(request).__name__.removesuffix("Request")
        version = LATEST[api] if version is None else version
        self._asked[name] = (self._wire(name).send(request, version), type(request), version, api)

    def end(self, what: str, *, name: str, quietly: bool = False) -> Any:
        """Take the answer, note it, and return it. A member id that it gives is `name`'s from now on."""
        from support.wire import _response_class

        _, request_class, version, api = self._asked.pop(name)
        data = self._wire(name).receive()
        if data is None:
            raise ConnectionError(f"{what}: the server hung up")
        response = _response_class(request_class).decode(data, version=version, header=True)
        if api == "JoinGroup" and response.member_id:
            self.ids[name] = response.member_id
        if not quietly:
            self.transcript.note(
                f"{self._prefix}{what}, v{version}", self._named(response.to_dict(json=False)), api=api
            )
        return response

    def is_waiting(self, name: str) -> bool:
        """Whether there is no answer for `name` yet, a moment after the server has answered another member."""
        import select

        self._wire("script").ask(heartbeat(self.group, "nobody", 0), 0)
        return not select.select([self._wire(name).socket], [], [], 0.05)[0]

    def _named(self, value: Any) -> Any:
        """An answer with names for member ids, and groups and members in the order of their names."""
        if isinstance(value, dict):
            return {key: self._named(entry) for key, entry in value.items()}
        if isinstance(value, list):
            entries = [self._named(entry) for entry in value]
            if entries and isinstance(entries[0], dict):
                names = ("group_id", "member_id", "group_instance_id")
                entries.sort(key=lambda entry: [str(entry.get(name)) for name in names])
            return entries
        if isinstance(value, str):
            known = {member_id: name for name, member_id in self.ids.items()}
            return f"<{known[value]}>" if value in known else _GENERATED.sub("-<uuid>", value)
        return value
