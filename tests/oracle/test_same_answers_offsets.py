"""Committed offsets and coordinators: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import MetadataRequest

from support.batches import Item, batch
from support.kafka_requests import create_topics, delete_topics, metadata, produce
from support.offset_requests import (
    NO_ID,
    await_coordinator,
    await_share_coordinator,
    await_transaction_coordinator,
    commit,
    delete,
    fetch,
    find,
)
from support.transcript import NONE_EXISTS, SameAnswers, Transcript
from support.until import until

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)


class Member:
    """A member of a group, with everything that it does not need to be compared."""

    def __init__(self, transcript: Transcript, group: str, topic: str, *, protocol_type: str = "consumer") -> None:
        self._transcript = transcript
        self._group = group
        self._protocol_type = protocol_type
        subscription = b"\0\0" + (1).to_bytes(4, "big") + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff" * 4
        Protocol = JoinGroupRequest.JoinGroupRequestProtocol
        self.generation, self.member_id = -1, ""
        for _ in range(2):  # the first time for the member id
            joined = transcript._wire.ask(
                JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=30_000,
                    rebalance_timeout_ms=30_000,
                    member_id=self.member_id,
                    group_instance_id=None,
                    protocol_type=protocol_type,
                    protocols=[Protocol(name="range", metadata=subscription)],
                ),
                5,
            )
            self.member_id, self.generation = joined.member_id, joined.generation_id
        assert joined.error_code == 0, joined

    def sync(self) -> None:
        Assignment = SyncGroupRequest.SyncGroupRequestAssignment
        synced = self._transcript._wire.ask(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self.generation,
                member_id=self.member_id,
                assignments=[Assignment(member_id=self.member_id, assignment=b"\0\0\0\0\0\0\0\0\0\0")],
            ),
            2,
        )
        assert synced.error_code == 0, synced

    def leave(self) -> None:
        left = self._transcript._wire.ask(LeaveGroupRequest(group_id=self._group, member_id=self.member_id), 1)
        assert left.error_code == 0, left


def test_find_coordinator(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        group = transcript.topic
        await_coordinator(transcript._wire, group, "")
        await_transaction_coordinator(transcript._wire, group)
        for version in range(7):
            transcript.ask("a group", find(group, version=version), version)
            transcript.ask("no name", find("", version=version), version)
            if version >= 1:
                for key_type in (-1, 3, 99):
                    transcript.ask(f"key type {key_type}", find(group, version=version, key_type=key_type), version)
                transcript.ask("a transactional id", find(group, version=version, key_type=1), version)
                transcript.ask("a share group", find(group, version=version, key_type=2), version)
            if version >= 6:
                share = f"{group}:a21pbmktdGVzdHMtb25lIQ:0"
                await_share_coordinator(transcript._wire, share)
                transcript.ask("the state of a share group", find(share, version=version, key_type=2), version)
            if version >= 4:
                await_coordinator(transcript._wire, group + "b")
                transcript.ask("several", find(group, group + "b", "", group, version=version), version)
                transcript.ask("none", find(version=version), version)
                transcript.ask("none of an unknown type", find(version=version, key_type=99), version)

    same_answers(script)


def test_offset_commit_and_fetch(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=4)
        topic_id = transcript.topic_ids[topic]
        for version in COMMIT_VERSIONS:
            group = f"{topic}-{version}"
            named = topic_id if version >= 10 else topic
            await_coordinator(transcript._wire, group)
            transcript.ask("commit", commit(group, named, 0, (1, 5, None), (2, 0, "")), version)
            for asked in FETCH_VERSIONS:
                name = topic_id if asked >= 10 else topic
                transcript.ask(f"v{version} fetch", fetch(group, [(name, range(5))], asked), asked)
                if asked >= 2:
                    transcript.ask(f"v{version} fetch all", fetch(group, None, asked), asked)
            absent = NONE_EXISTS if version >= 10 else f"{topic}-absent"
            transcript.ask("unknown topic", commit(group, absent, 0, 1), version)
            transcript.ask("unknown partitions", commit(group, named, -1, 3, 4, 99), version)
            transcript.ask("long metadata", commit(group, named, (0, 1, "m" * 4097), (1, 1, "ä" * 4096)), version)
            transcript.ask("negative offset", commit(group, named, (0, -1, ""), (1, -5, "")), version)
            transcript.ask("the same partition twice", commit(group, named, (0, 1, ""), (0, 2, "")), version)
            transcript.ask("no partitions", commit(group, named), version)
            transcript.ask("no partitions of no topic", commit(group, absent), version)
            transcript.ask("a generation", commit(group, named, 0, generation=1, member_id="m"), version)
            transcript.ask("generation zero", commit(group, named, 0, generation=0), version)
            transcript.ask("a member without generation", commit(group, named, 0, member_id="m"), version)
            if version >= 7:
                transcript.ask("an instance", commit(group, named, 0, instance_id="i"), version)
                transcript.ask(
                    "an instance's generation", commit(group, named, 0, generation=0, instance_id="i"), version
                )
            if version <= 4:
                transcript.ask("with a retention time", commit(group, named, 3, retention_ms=1000_000), version)
            transcript.ask(f"after all that, of v{version}", fetch(group, None, 7), 7)
            fresh = f"{group}-fresh"
            await_coordinator(transcript._wire, fresh)
            transcript.ask("a generation of no group", commit(fresh, named, 0, generation=1, member_id="m"), version)
            await_coordinator(transcript._wire, "")
            transcript.ask("no group id", commit("", named, 0), version)
        transcript.ask("fetch without group id", fetch("", [(topic, [0])], 7), 7)

    same_answers(script)


def test_offset_fetch_of_what_there_is_not(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        topic_id = transcript.topic_ids[topic]
        group = f"{topic}-g"
        await_coordinator(transcript._wire, group, f"{group}-absent")
        transcript._wire.ask(commit(group, topic, 0), 8)
        for version in FETCH_VERSIONS:
            name: str | uuid.UUID = topic_id if version >= 10 else topic
            absent: str | uuid.UUID = NONE_EXISTS if version >= 10 else f"{topic}-absent"
            transcript.ask("unknown group", fetch(f"{group}-absent", [(name, [0, 1])], version), version)
            transcript.ask("unknown topic", fetch(group, [(absent, [0, 1]), (name, [0])], version), version)
            transcript.ask("no partitions", fetch(group, [(name, [])], version), version)
            transcript.ask("no partitions of no topic", fetch(group, [(absent, [])], version), version)
            transcript.ask("no topics", fetch(group, [], version), version)
            transcript.ask("a partition twice", fetch(group, [(name, [0, 0]), (name, [0])], version), version)
            if version >= 7:
                transcript.ask("stable", fetch(group, [(name, [0, 1])], version, stable=True), version)
                transcript.ask("stable, all", fetch(group, None, version, stable=True), version)
            if version >= 8:
                several = [group, f"{group}-absent", group]
                transcript.ask("several groups", fetch(several, [(name, [0])], version), version)
                transcript.ask("several groups, all", fetch(several, None, version), version)
                transcript.ask("no groups", fetch([], None, version), version)
            if version >= 9:
                for member_id, epoch in (("m", 1), ("m", -1), ("", 0)):
                    request = fetch(group, [(name, [0])], version, member_id=member_id, member_epoch=epoch)
                    transcript.ask(f"member {member_id!r} {epoch}", request, version)
        transcript.ask("no id at all", fetch(group, [(NO_ID, [0])], 10), 10)

    same_answers(script)


def test_commits_by_members(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        for version in (2, 5, 8, 9):
            group = f"{topic}-{version}"
            await_coordinator(transcript._wire, group)
            member = Member(transcript, group, topic)
            mine = {"generation": member.generation, "member_id": member.member_id}
            transcript.ask("before the assignment", commit(group, topic, 0, **mine), version)
            member.sync()
            transcript.ask("a member", commit(group, topic, 0, **mine), version)
            transcript.ask("from outside", commit(group, topic, 0), version)
            transcript.ask("a stranger", commit(group, topic, 0, generation=member.generation, member_id="m"), version)
            old = commit(group, topic, 0, generation=member.generation - 1, member_id=member.member_id)
            transcript.ask("an old generation", old, version)
            transcript.ask("no generation", commit(group, topic, 0, member_id=member.member_id), version)
            transcript.ask("an unknown partition", commit(group, topic, 7, **mine), version)
            transcript.ask("some that are not there", commit(group, topic, 1, 7, generation=99, member_id="m"), version)
            transcript.ask(f"what is kept of v{version}", fetch(group, None, 7), 7)
            member.leave()
            transcript.ask("after it left", commit(group, topic, 1, **mine), version)
            transcript.ask("from outside again", commit(group, topic, 1), version)
            transcript.ask(f"what is kept then of v{version}", fetch(group, None, 7), 7)

    same_answers(script)


def test_offset_delete(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        other = transcript.create("-other")
        group = f"{topic}-g"
        await_coordinator(transcript._wire, group, f"{group}-absent", f"{group}-plain")
        transcript.ask("unknown group", delete(f"{group}-absent", (topic, [0])), 0)
        transcript.ask("no group id", delete("", (topic, [0])), 0)
        transcript._wire.ask(commit(group, topic, 0, 1, 2), 8)
        transcript.ask("one", delete(group, (topic, [0])), 0)
        transcript.ask("it again", delete(group, (topic, [0])), 0)
        transcript.ask("unknown partitions", delete(group, (topic, [1, 7, -1])), 0)
        transcript.ask("unknown topic", delete(group, (f"{topic}-absent", [0])), 0)
        transcript.ask("nothing", delete(group), 0)
        transcript.ask("no partitions", delete(group, (topic, [])), 0)
        transcript.ask("no partitions of no topic", delete(group, (f"{topic}-absent", [])), 0)
        transcript.ask("a partition twice", delete(group, (topic, [1, 1])), 0)
        transcript.ask("a topic twice", delete(group, (topic, [1]), (topic, [0])), 0)
        transcript.ask("what is left", fetch(group, None, 7), 7)
        member = Member(transcript, group, topic)
        transcript.ask("subscribed, in a rebalance", delete(group, (topic, [2]), (other, [0])), 0)
        member.sync()
        transcript.ask("subscribed", delete(group, (topic, [2]), (other, [0])), 0)
        transcript.ask("subscribed, unknown partition", delete(group, (topic, [2, 9])), 0)
        member.leave()
        transcript.ask("nobody is left", delete(group, (topic, [2])), 0)
        transcript.ask("all are gone", fetch(group, None, 7), 7)
        plain = Member(transcript, f"{group}-plain", topic, protocol_type="connect")
        transcript.ask("not consumers, in a rebalance", delete(f"{group}-plain", (topic, [0])), 0)
        plain.sync()
        transcript.ask("not consumers", delete(f"{group}-plain", (topic, [0])), 0)
        transcript.ask("not consumers, unknown topic", delete(f"{group}-plain", (f"{topic}-absent", [0])), 0)
        plain.leave()
        transcript.ask("not consumers, nobody is left", delete(f"{group}-plain", (topic, [0])), 0)

    same_answers(script)


def test_a_deleted_topic_takes_its_offsets_along(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic, other = transcript.create(partitions=2), transcript.create("-other")
        group = f"{topic}-g"
        await_coordinator(transcript._wire, group)
        transcript._wire.ask(commit(group, topic, 0, 1), 8)
        transcript._wire.ask(commit(group, other, 0), 8)
        transcript.ask("both", fetch(group, None, 7), 7)
        transcript.ask("delete", delete_topics(topic, version=5), 5)
        # Apache Kafka answers first.
        until(lambda: len(transcript._wire.ask(fetch(group, None, 7), 7).topics) == 1)
        transcript.ask("one is left", fetch(group, None, 7), 7)
        transcript.ask("by name", fetch(group, [(topic, [0, 1])], 7), 7)

    same_answers(script)


def test_an_offset_of_another_topic_of_that_name(same_answers: SameAnswers) -> None:
    """Committed by id; the same name with another id has no offset."""

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=1)
        group = f"{topic}-g"
        await_coordinator(transcript._wire, group)
        transcript.ask("commit by id", commit(group, transcript.topic_ids[topic], 0), 10)
        transcript.ask("by name", fetch(group, [(topic, [0])], 9), 9)
        transcript.ask("by id", fetch(group, [(transcript.topic_ids[topic], [0])], 10), 10)
        old_id = transcript.topic_ids[topic]
        transcript.ask("delete", delete_topics(topic, version=5), 5)
        transcript.create(partitions=1)
        transcript.ask("by the old id", fetch(group, [(old_id, [0])], 10), 10)
        transcript.ask("commit by the old id", commit(group, old_id, 0), 10)
        transcript.ask("by the new id", fetch(group, [(transcript.topic_ids[topic], [0])], 10), 10)

    same_answers(script)


def test_too_much_for_a_batch(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        group = f"{topic}-g"
        await_coordinator(transcript._wire, group)
        transcript.ask("too much", commit(group, topic, *[(0, n, "m" * 4096) for n in range(300)]), 8)
        transcript.ask("nothing of it", fetch(group, None, 7), 7)

    same_answers(script)


def test_the_topic_of_offsets(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        name = "__consumer_offsets"
        await_coordinator(transcript._wire, transcript.topic)
        transcript.ask("is described", metadata(name), 12)
        listed = transcript._wire.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
        transcript.note(
            "is listed", [topic.name for topic in listed.topics if topic.is_internal and topic.name == name]
        )
        transcript.ask("create", create_topics({"name": name}), 7)
        transcript.ask("produce", produce(name, batch([Item(key=b"k")])), 9)
        transcript.ask("offsets of it", commit(transcript.topic, name, 0), 8)

    same_answers(script)


@pytest.mark.parametrize("version", [0, 1])
def test_versions_below_those_of_kafka_4_are_ours_alone(server: Any, version: int) -> None:
    """There is nothing to compare: Apache Kafka 4 hangs up."""
    transcript = Transcript(server, f"old-{version}")
    try:
        topic = transcript.create()
        await_coordinator(transcript._wire, topic)
        # kafka-python's tables begin with version 2, too
        name, text = topic.encode(), b"note"
        member = b"" if version == 0 else b"\xff\xff\xff\xff" + b"\0\0"
        when = b"" if version == 0 else b"\xff" * 8
        body = len(name).to_bytes(2, "big") + name + member + b"\0\0\0\1" + len(name).to_bytes(2, "big") + name
        body += b"\0\0\0\1" + b"\0\0\0\0" + (7).to_bytes(8, "big") + when + len(text).to_bytes(2, "big") + text
        header = (8).to_bytes(2, "big") + version.to_bytes(2, "big") + (1).to_bytes(4, "big") + b"\xff\xff"
        transcript._wire.socket.sendall((len(header) + len(body)).to_bytes(4, "big") + header + body)
        answer = transcript._wire.receive()
        assert answer is not None
        assert answer.endswith(b"\0\0\0\0" + b"\0\0")
        fetched = transcript._wire.ask(fetch(topic, [(topic, [0])], 1), 1)
        partition = fetched.topics[0].partitions[0]
        assert (partition.committed_offset, partition.metadata, partition.error_code) == (7, "note", 0)
    finally:
        transcript.close()
