"""A consumer group (KIP-848) whose members play a script to two servers.

The members' ids are the script's own, so both servers have the same. Topics have the script's names, and in what is
noted they have them instead of their ids.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka.protocol.admin import DeleteTopicsRequest

from kmini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kmini.protocol.messages.delete_groups import DeleteGroupsRequest
from kmini.protocol.schema import Struct
from kmini.testing import Wire
from support.offset_requests import await_coordinator
from support.oracle.config_requests import GROUP, SET, change, grow
from support.oracle.group_log import GroupLog
from support.transcript import NONE_EXISTS, Transcript
from support.until import until

HEARTBEAT_MS = 7_000
"""The heartbeat intervals of groups in scripts begin here: both servers allow them, and they are no default."""


class Pace(NamedTuple):
    """What a group asks of its members."""

    heartbeat_ms: int
    session_ms: int


USUAL = Pace(HEARTBEAT_MS, session_ms=45_000)
PATIENT = Pace(HEARTBEAT_MS, session_ms=600_000)
"""No member times out that is not meant to, however slow the machine is."""
QUICK = Pace(350, session_ms=1_000)
"""For the last heartbeat of a member that is to time out. Only servers with `SESSIONS` (`conftest.py`) allow this one
and the one before."""

REBALANCE_MS = 600_000

Owned = Mapping[str, Collection[int]]
"""Partitions by the script's name of their topic."""

JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2


class ConsumerCast:
    """The members of one group. Each is a name and what it was last told."""

    def __init__(self, transcript: Transcript, suffix: str, interval_ms: int, topics: Mapping[str, int]) -> None:
        """`interval_ms` is the group's `consumer.assignment.interval.ms`; the topics come with numbers of
        partitions."""
        self.transcript = transcript
        self.group = f"{transcript.topic}{suffix}"
        self._prefix = f"{suffix[1:]}: " if suffix else ""
        self.wire = Wire(transcript.server.bootstrap_servers, client_id="tests")
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, dict[str, list[int]]] = {}
        self._names: dict[bytes, str] = {}
        """The topics' names in the script, by id."""
        self._pace = USUAL
        self._settled = 0
        """How often `_settle_metadata` was called."""
        self._interval_ms = interval_ms
        await_coordinator(transcript._wire, self.group, self._probe)
        self.log = GroupLog(self.wire, self.group)
        self.create(**topics)

    def twin(self) -> ConsumerCast:
        """The same members, as they have been told until now, to play on with another server."""
        twin = copy.copy(self)
        twin.epochs, twin.assigned = dict(self.epochs), copy.deepcopy(self.assigned)
        return twin

    def go_on(self, transcript: Transcript) -> None:
        """Play on to a server that has what the server before held, or part of it: the group's settings are set anew.
        Answers are noted in this transcript."""
        self.wire.close()
        transcript.topic_ids = self.transcript.topic_ids
        self.transcript = transcript
        self.wire = Wire(transcript.server.bootstrap_servers, client_id="tests")
        await_coordinator(transcript._wire, self.group, self._probe)
        self._settle_metadata()

    # --- topics and settings

    @property
    def _probe(self) -> str:
        return f"{self.group}-probe"

    def set_interval(self, interval_ms: int) -> None:
        """Set `consumer.assignment.interval.ms`, and return when it is in force."""
        self._interval_ms = interval_ms
        self._settle_metadata()

    def set_pace(self, pace: Pace) -> None:
        """Have the group ask something else of its members, and return when it is in force."""
        self._pace = pace
        self._settle_metadata()

    def _settle_metadata(self) -> None:
        """Set the group's intervals, and return when they are in force: in Apache Kafka every change of the metadata
        is known to the groups a moment later, but in order."""
        self._settled += 1
        heartbeat_ms = self._pace.heartbeat_ms + self._settled
        for group in (self.group, self._probe):
            settings = {
                "consumer.heartbeat.interval.ms": heartbeat_ms,
                "consumer.session.timeout.ms": self._pace.session_ms,
                "consumer.assignment.interval.ms": self._interval_ms,
            }
            pairs = [(name, SET, str(value)) for name, value in settings.items()]
            (answer,) = self.transcript.ask_quietly(change((GROUP, group, pairs)), 1).responses
            assert answer.error_code == 0, answer
        until(lambda: self._heartbeat_interval_ms() == heartbeat_ms, "the settings of the group")

    def _heartbeat_interval_ms(self) -> int:
        """What another group is told, whose settings change after this one's."""
        joins = ConsumerGroupHeartbeatRequest(
            group_id=self._probe,
            member_id="probe",
            member_epoch=JOINS,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[],
            topic_partitions=[],
        )
        answer = self.wire.ask(joins)
        assert answer.error_code == 0, answer
        return int(answer.heartbeat_interval_ms)

    def full(self, name: str) -> str:
        """The full name of a topic of the script."""
        return f"{self.group}-{name}"

    def create(self, **partitions: int) -> None:
        """Create topics with so many partitions."""
        for name, count in partitions.items():
            self.transcript.create(self.full(name).removeprefix(self.transcript.topic), partitions=count)
            self._names[self.id_of(name)] = name
            self.log.add_topic(self.full(name), self.id_of(name), count)
        self._settle_metadata()

    def id_of(self, name: str) -> bytes:
        """The id of a topic, or one that no topic has."""
        return self.transcript.topic_ids.get(self.full(name), NONE_EXISTS).bytes

    def grow(self, name: str, count: int) -> None:
        """Have this topic get so many partitions."""
        self.transcript.ask_quietly(grow((self.full(name), count, None)), 3)
        self.transcript.wait_for_partitions(self.full(name), count)
        self.log.add_topic(self.full(name), self.id_of(name), count)
        self._settle_metadata()

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[self.full(name)], timeout_ms=5_000)
        (answer,) = self.transcript.ask_quietly(request, 4).responses
        assert answer.error_code == 0, answer
        self._settle_metadata()

    # --- heartbeats

    def beat(
        self,
        what: str,
        member: str,
        epoch: int | None = None,
        *,
        owned: Owned | None = None,
        names: Collection[str] | None = None,
        regex: str | None = None,
        version: int = 1,
        quietly: bool = False,
        **fields: Any,
    ) -> Any:
        """Send a heartbeat, by default with the epoch that the member was last told, and note the answer."""
        reported = None
        if owned is not None:
            reported = [TopicPartitions(topic_id=self.id_of(name), partitions=[*some]) for name, some in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group,
                "member_id": member,
                "member_epoch": self.epochs.get(member, JOINS) if epoch is None else epoch,
                "subscribed_topic_names": None if names is None else [self.full(name) for name in names],
                "subscribed_topic_regex": regex,
                "topic_partitions": reported,
                **fields,
            }
        )
        answer = self.wire.ask(request, version)
        if answer.error_code == 0:
            self.epochs[answer.member_id] = answer.member_epoch
            if answer.assignment is not None:
                told = {self._names[one.topic_id]: sorted(one.partitions) for one in answer.assignment.topic_partitions}
                self.assigned[answer.member_id] = told
        if not quietly:
            self.note(f"{what}, v{version}", answer)
        return answer

    def join(self, what: str, member: str, *names: str, **fields: Any) -> Any:
        """Join with a heartbeat that has all that it needs."""
        wish = {"names": names} if names or "regex" not in fields else {}
        return self.beat(what, member, JOINS, **{"rebalance_timeout_ms": REBALANCE_MS, "owned": {}, **wish, **fields})

    def leave(self, what: str, member: str, epoch: int = LEAVES, **fields: Any) -> Any:
        return self.beat(what, member, epoch, **fields)

    def step(self, what: str, member: str, **fields: Any) -> Any:
        """A heartbeat of a member that owns what it was last told to own, and says so."""
        return self.beat(what, member, owned=self.assigned.get(member, {}), **fields)

    def settle(self, what: str, *members: str, rounds: int = 6, quietly: bool = False) -> None:
        """The members send heartbeats, one after the other, until one round has told nothing new to any."""
        for number in range(rounds):
            before = dict(self.epochs), dict(self.assigned)
            for member in members:
                self.step(f"{what}, round {number}: {member}", member, quietly=quietly)
            if (self.epochs, self.assigned) == before:
                return
        raise AssertionError(f"{what}: after {rounds} rounds members are still told something new: {self.assigned}")

    def time_out(self, what: str, member: str, **fields: Any) -> None:
        """Have this member, and no other, send its last heartbeat, and wait until its session has ended. One that is
        not in the group is refused, and no more; one that is away says again that it is, which begins no session."""
        self.set_pace(QUICK)
        answer = self.beat(what, member, **fields)
        self.set_pace(PATIENT)
        if answer.error_code == 0 and answer.member_epoch != LEAVES_FOR_A_WHILE:
            until(lambda: member not in self._present(), lambda: f"{member} still among {self._present()}")

    # --- other requests

    def describe(self, what: str, version: int = 1, *, operations: bool = False) -> Any:
        """Note how the group is described."""
        return self._noted(what, self._description(operations), version)

    def _description(self, operations: bool = False) -> Any:
        return ConsumerGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=operations)

    def until_epoch(self, epoch: int) -> None:
        """Wait until the group has this epoch: expressions are resolved in the background."""

        def epoch_now() -> int:
            return int(self.wire.ask(self._description()).groups[0].group_epoch)

        until(lambda: epoch_now() == epoch, lambda: f"group epoch {epoch_now()}, not {epoch}")

    def until_members(self, *members: str) -> None:
        """Wait until these are the members."""
        until(lambda: self._present() == {*members}, lambda: f"members {self._present()}", poll_s=0.02)

    def _present(self) -> set[str]:
        return {member.member_id for member in self.wire.ask(self._description()).groups[0].members}

    def ask(self, what: str, request: Any, version: int) -> Any:
        """Ask something with a class of kafka-python, and note the answer."""
        return self.transcript.ask(f"{self._prefix}{what}", request, version)

    def _noted(self, what: str, request: Any, version: int) -> Any:
        answer = self.wire.ask(request, version)
        self.note(f"{what}, v{version}", answer)
        return answer

    def note(self, what: str, answer: Struct) -> None:
        api = type(answer).__name__.removesuffix("Response")
        self.transcript.note(f"{self._prefix}{what}", self._plain(answer), api=api)

    def note_records(self, what: str, changes: int = 0, *, by_batch: bool = True) -> None:
        """Note the batches of records that the group has got since the last time, once so many records have come.
        Without `by_batch` only the records: Kafka may write two steps as one batch, of what a group does by itself."""
        if changes:
            self.log.wait_for_records(changes)
        batches = self.log.read()
        self.transcript.note(
            f"{self._prefix}{what}", batches if by_batch else [one for each in batches for one in each]
        )

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Struct):
            fields = {field.name: getattr(value, field.name) for field in type(value).__fields__}
            plain = {name: self._plain(one) for name, one in fields.items() if name != "topic_id"}
            if "topic_id" in fields:
                plain["topic"] = self._names.get(fields["topic_id"], fields["topic_id"].hex())
            return plain
        if isinstance(value, (list, tuple)):
            entries = [self._plain(one) for one in value]
            return sorted(entries, key=lambda one: str(one.get("member_id")) if isinstance(one, dict) else one)
        return value

    def close(self) -> None:
        """Let the probe go, and hang up."""
        leaves = ConsumerGroupHeartbeatRequest(group_id=self._probe, member_id="probe", member_epoch=LEAVES)
        self.wire.ask(leaves)
        self.wire.ask(DeleteGroupsRequest(groups_names=[self._probe]))
        self.wire.close()


@contextmanager
def consumer_cast(
    transcript: Transcript, suffix: str = "", *, interval_ms: int = 0, **topics: int
) -> Iterator[ConsumerCast]:
    """A group, and topics with so many partitions."""
    cast = ConsumerCast(transcript, suffix, interval_ms, topics)
    try:
        yield cast
    finally:
        cast.close()
