"""A `ConsumerLab` whose group has members of the classic protocol, too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.classic_groups import Syncing
from kmini.broker.groups.classic.member import Joining, JoinResult, Leaving, SyncResult
from kmini.protocol.consumer_protocol import ConsumerProtocolSubscription, read_assignment, write_assignment
from kmini.protocol.errors import KafkaError, error_name
from support.broker.consumer_lab import ASSIGNMENT_INTERVAL_MS, REBALANCE_MS, Assigned, ConsumerLab

CLASSIC_SESSION_MS = 10_000

MakeMixedLab = Callable[..., Awaitable["MixedLab"]]

_NO_PARTITIONS: Mapping[str, Collection[int]] = {}


class MixedLab(ConsumerLab):
    """Asks as clients of both protocols do."""

    @property
    def classic(self) -> ClassicGroup:
        """The group, which is a classic one."""
        group = self.groups.groups["g"]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def kind(self) -> str:
        return self.groups.groups["g"].group_type

    def classic_join(
        self,
        member_id: str = "",
        *names: str,
        owned: Mapping[str, Collection[int]] = _NO_PARTITIONS,
        protocols: Mapping[str, bytes] | None = None,
        instance: str | None = None,
        version: int = 3,
        protocol_type: str = "consumer",
    ) -> asyncio.Future[JoinResult]:
        """Send a JoinGroup, with the one protocol "range" unless told otherwise."""
        joining = Joining(
            member_id=member_id,
            instance_id=instance,
            client_id="classic",
            client_host="/192.0.2.2",
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type=protocol_type,
            protocols={"range": subscription(*names, owned=owned)} if protocols is None else protocols,
            takes_member_id=version >= 4,
        )
        return self.groups.join("g", joining)

    def classic_sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        protocol: tuple[str | None, str | None] = (None, None),
        instance: str | None = None,
    ) -> asyncio.Future[SyncResult]:
        return self.groups.sync("g", Syncing(member_id, instance, generation, *protocol, assignments or {}))

    def synced(self, member_id: str, generation: int) -> Assigned | str:
        """What a member of a mixed group is assigned by SyncGroup; or the name of the error."""
        result = self.classic_sync(member_id, generation).result()
        return error_name(result.error_code) if result.error_code else assigned_in(result.assignment)

    def classic_heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> str:
        """Send a Heartbeat, and give the name of the error."""
        try:
            self.groups.heartbeat("g", member_id, instance, generation)
        except KafkaError as error:
            return error.kafka_name
        return "NONE"

    async def classic_leave(self, *leaving: Leaving) -> list[str]:
        """Send a LeaveGroup, and give the name of each error."""
        return [error_name(code) for code in await self.groups.leave("g", leaving)]

    async def form_classic(self, *names: str, shares: Mapping[str, Assigned], topic: str = "t") -> dict[str, str]:
        """Members form a classic group under these names, static ones where they begin with "static"; each gets its
        share. The member ids, by name; the first one leads."""
        instances = {name: name if name.startswith("static") else None for name in names}
        waiting = {name: self.classic_join("", topic, instance=instances[name]) for name in names}
        await self.pass_time(100)  # that of the initial rebalance
        ids = {name: answer.result().member_id for name, answer in waiting.items()}
        generation = self.classic.generation_id
        given = {ids[name]: write_assignment(share, subscription()) for name, share in shares.items()}
        for name in reversed(names):
            assignments = given if ids[name] == self.classic.leader_id else {}
            answer = self.classic_sync(ids[name], generation, assignments, instance=instances[name])
        await answer
        assert self.classic.is_stable
        return ids

    async def form_mixed(self, *instances: str | None, **consumer: str) -> list[str]:
        """The member "m" of the consumer protocol shares the topic "t" with one of the classic protocol for each
        instance id; the ids of the latter. The group is stable."""
        await self.join("m", "t", **consumer)
        ids = [(await asyncio.wait_for(self.classic_join("", "t", instance=one), 10)).member_id for one in instances]
        for _ in range(10):
            await self.pass_time(ASSIGNMENT_INTERVAL_MS)
            await self.beat("m", self.group.current("m").epoch, owned=self.assigned_to("m"), **consumer)
            for member_id, instance in zip(ids, instances, strict=True):
                has = self.assigned_to(member_id)
                joined = await asyncio.wait_for(self.classic_join(member_id, "t", owned=has, instance=instance), 10)
                synced = self.classic_sync(member_id, joined.generation_id, instance=instance).result()
                assert (joined.error_code, synced.error_code) == (0, 0)
            if self.group.is_stable:
                return ids
        raise AssertionError(f"the group is {self.state}")


def subscription(*names: str, owned: Mapping[str, Collection[int]] = _NO_PARTITIONS, rack: str | None = None) -> bytes:
    """The metadata of a consumer that speaks the classic protocol."""
    places = ConsumerProtocolSubscription.TopicPartitions
    message = ConsumerProtocolSubscription(
        topics=[*names], owned_partitions=[places(topic=name, partitions=[*each]) for name, each in owned.items()]
    )
    message.rack_id = rack
    version = 1 if rack is None else 3
    return b"".join(message.encode(version, bytearray(version.to_bytes(2, "big"))))


def assigned_in(assignment: bytes) -> Assigned:
    """The partitions of an assignment of the classic protocol, by topic name."""
    return {one.topic: one.partitions for one in read_assignment(assignment).assigned_partitions}
