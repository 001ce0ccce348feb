"""A streams group (KIP-1071) whose members play a script to two servers.

The members' ids are the script's own, so both servers have the same. Topics have the script's names with the group's in
front, on both servers alike.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kmini.protocol.messages import streams_group_heartbeat as messages
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kmini.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kmini.protocol.schema import Struct
from support.broker.streams_lab import subtopology, task_ids, topology
from support.oracle.config_requests import GROUP, SET, change
from support.oracle.consumer_cast import JOINS, LEAVES, REBALANCE_MS, ConsumerCast
from support.transcript import Transcript
from support.until import until

Tasks = Mapping[str, Collection[int]]
"""Partitions by subtopology id."""

DETAILS = {"status_detail"}
"""Each server has its own words."""


class StreamsCast(ConsumerCast):
    """The members of one streams group. Each is a name and what it was last told."""

    def __init__(
        self, transcript: Transcript, suffix: str, interval_ms: int, delay_ms: int, topics: Mapping[str, int]
    ) -> None:
        """`interval_ms` and `delay_ms` are the group's `streams.assignment.interval.ms` and
        `streams.initial.rebalance.delay.ms`."""
        self._own_settings = {"assignment.interval": interval_ms, "initial.rebalance.delay": delay_ms}
        self._standbys = 0
        self.tasks: dict[str, list[Tasks]] = {}
        """The tasks of each member in the three roles, as it was last told."""
        super().__init__(transcript, suffix, interval_ms, topics)

    def set_standbys(self, count: int) -> None:
        """Set `streams.num.standby.replicas`, and return when it is in force."""
        self._standbys = count
        self._settle_metadata()

    def _settle_metadata(self) -> None:
        settings = {f"streams.{name}.ms": ms for name, ms in self._own_settings.items()}
        settings |= {"streams.heartbeat.interval.ms": self._pace.heartbeat_ms}
        settings |= {"streams.session.timeout.ms": self._pace.session_ms}
        settings |= {"streams.num.standby.replicas": self._standbys}
        pairs = [(name, SET, str(value)) for name, value in settings.items()]
        (answer,) = self.transcript.ask_quietly(change((GROUP, self.group, pairs)), 1).responses
        assert answer.error_code == 0, answer
        super()._settle_metadata()

    # --- topics

    def sub(self, name: str, *sources: str, **fields: Any) -> messages.Subtopology:
        """A subtopology of topics by the script's names."""
        for field in ("keeps", "writes"):
            fields[field] = [self.full(topic) for topic in fields.get(field, ())]
        fields["through"] = {self.full(topic): size for topic, size in fields.get("through", {}).items()}
        return subtopology(name, *map(self.full, sources), **fields)

    def adopt(self, **partitions: int) -> None:
        """Wait until the server has made these internal topics, with so many partitions."""
        for name, count in partitions.items():
            asked = MetadataRequest(topics=[MetadataRequest.Topic(name=self.full(name))])

            def found(asked: MetadataRequest = asked) -> Any:
                (known,) = self.wire.ask(asked, 12).topics
                return None if known.error_code else known

            known = until(found, f"the topic {name}")
            assert len(known.partitions) == count, known
            self._names[known.topic_id] = name
            self.log.add_topic(self.full(name), known.topic_id, count)
        self._settle_metadata()

    # --- heartbeats

    def beat(  # type: ignore[override]
        self, what: str, member: str, epoch: int | None = None, *, owned: Collection[Tasks] | None = None, **fields: Any
    ) -> Any:
        """Send a heartbeat, by default with the epoch that the member was last told, and note the answer."""
        if owned is not None:
            roles = ("active_tasks", "standby_tasks", "warmup_tasks")
            fields = {**{role: task_ids(tasks) for role, tasks in zip(roles, owned, strict=True)}, **fields}
        request = StreamsGroupHeartbeatRequest(
            **{
                "group_id": self.group,
                "member_id": member,
                "member_epoch": self.epochs.get(member, JOINS) if epoch is None else epoch,
                "endpoint_information_epoch": -1,
                **fields,
            }
        )
        answer = self.wire.ask(request, 0)
        if answer.error_code == 0 and answer.member_epoch > 0:
            self.epochs[member] = answer.member_epoch
            told = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            if answer.active_tasks is not None:
                self.tasks[member] = [{one.subtopology_id: one.partitions for one in tasks} for tasks in told]
        self.note(what, answer)
        return answer

    def join(self, what: str, member: str, *subtopologies: Any, epoch: int = 0, **fields: Any) -> Any:  # type: ignore[override]
        """Join with a heartbeat that has all that it needs, in a process of its own."""
        wish: dict[str, Any] = {
            "topology": topology(*subtopologies, epoch=epoch),
            "rebalance_timeout_ms": REBALANCE_MS,
            "owned": ({}, {}, {}),
            "process_id": f"p-{member}",
            "client_tags": [],
        }
        return self.beat(what, member, JOINS, **{**wish, **fields})

    def leave(self, what: str, member: str, epoch: int = LEAVES, **fields: Any) -> Any:
        return self.beat(what, member, epoch, **fields)

    def step(self, what: str, member: str, **fields: Any) -> Any:
        """A heartbeat of a member that has the tasks that it was last told, and says so."""
        return self.beat(what, member, owned=self.tasks.get(member, [{}, {}, {}]), **fields)

    def describe(self, what: str, version: int = 0, *, operations: bool = False) -> Any:
        return self._noted(what, self._description(operations), version)

    def _description(self, operations: bool = False) -> Any:
        return StreamsGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=operations)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Struct):
            fields = {field.name: getattr(value, field.name) for field in type(value).__fields__}
            return {name: self._plain(one) for name, one in fields.items() if name not in DETAILS}
        if isinstance(value, (list, tuple)):
            entries = [self._plain(one) for one in value]
            if entries and isinstance(entries[0], dict) and "status_code" in entries[0]:
                return [entry["status_code"] for entry in entries]  # in their order
            return sorted(entries, key=_place)
        return value


def _place(entry: Any) -> str:
    """Members by their ids, whatever they have."""
    named = entry.get("member_id") if isinstance(entry, dict) else None
    return str(named) if named is not None else json.dumps(entry, sort_keys=True)


@contextmanager
def streams_cast(
    transcript: Transcript, suffix: str = "", *, interval_ms: int = 0, delay_ms: int = 0, **topics: int
) -> Iterator[StreamsCast]:
    """A group, and topics with so many partitions."""
    cast = StreamsCast(transcript, suffix, interval_ms, delay_ms, topics)
    try:
        yield cast
    finally:
        cast.close()
