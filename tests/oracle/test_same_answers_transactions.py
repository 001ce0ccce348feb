"""Transactions: we answer the same requests as Apache Kafka does, and leave the same in the log."""

from __future__ import annotations

from support.offset_requests import await_coordinator, commit
from support.offset_requests import fetch as fetch_offsets
from support.transaction_logs import note_log, note_producers
from support.transaction_requests import TransactionalProducer, describe, init, list_transactions
from support.transcript import SameAnswers, Transcript


def test_a_life_with_commits_and_aborts(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        producer = TransactionalProducer(transcript, topic)
        producer.init("first")
        for number, is_commit in enumerate((True, False, True)):
            what = f"in transaction {number}"
            producer.add(f"partitions {what}", topic, 0, 1)
            producer.add(f"more partitions {what}", topic, 1, 2)
            producer.produce(f"a batch {what}", topic)
            producer.produce(f"another batch {what}", topic)
            note_log(transcript, f"{what}, open", topic)
            note_producers(transcript, f"{what}, open", topic)
            producer.end(f"the end {what}", commit=is_commit)
            note_log(transcript, f"{what}, ended", topic)
            note_producers(transcript, f"{what}, ended", topic)
            producer.end(f"the end once more {what}", commit=is_commit)
            producer.end(f"the other end {what}", commit=not is_commit)
            answer = transcript.ask_quietly(describe(topic, topic + "x", ""), 0)
            states = [
                (one.error_code, one.transaction_state, one.transaction_timeout_ms, one.producer_epoch)
                for one in answer.transaction_states
            ]
            transcript.note(f"description {what}", states)

    same_answers(script)


def test_every_version_of_every_request(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        group = topic + "g"
        await_coordinator(transcript._wire, group)
        for version in range(5):
            producer = TransactionalProducer(transcript, f"{topic}{version}")
            producer.init("init", version)
            producer.add(f"unknown partitions {version}", topic, 0, 9, version=min(version, 3))
            producer.add(f"an internal partition {version}", "__consumer_offsets", 0, version=min(version, 3))
            producer.add(f"partitions {version}", topic, 0, version=min(version, 3))
            producer.add_offsets(f"offsets {version}", group, min(version, 3))
            producer.produce("a batch", topic, version=7 + version)
            producer.commit_offset("an offset", group, topic, 7, version=version)
            producer.commit_offset("too much metadata", group, topic, 7, version=version, metadata="x" * 5000)
            producer.commit_offset("no such topic", group, topic + "x", 7, version=version)
            for stable in (False, True):
                transcript.ask(
                    f"what is committed before {version}, stable {stable}",
                    fetch_offsets(group, [(topic, [0])], 7, stable=stable),
                    7,
                )
            producer.end("the end", commit=version % 2 == 0, version=version)
            transcript.ask(
                f"what is committed after {version}", fetch_offsets(group, [(topic, [0])], 7, stable=True), 7
            )
            wrong = {"producer_epoch": 7}
            producer.add(f"partitions of a wrong epoch {version}", topic, 0, version=min(version, 3), **wrong)
            producer.add_offsets("offsets of a wrong epoch", group, version, **wrong)
            producer.commit_offset("an offset of a wrong epoch", group, topic, 7, version=version, **wrong)
            producer.end("the end of a wrong epoch", commit=True, version=version, **wrong)
            wrong = {"producer_id": producer.producer_id + 10_000}
            producer.add(f"partitions of a stranger {version}", topic, 0, version=min(version, 3), **wrong)
            producer.add_offsets("offsets of a stranger", group, version, **wrong)
            producer.commit_offset("an offset of a stranger", group, topic, 7, version=version, **wrong)
            producer.end("the end of a stranger", commit=True, version=version, **wrong)
        note_log(transcript, "at the end", topic)

    same_answers(script)


def test_init_producer_id(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        producer = TransactionalProducer(transcript, topic)
        for timeout_ms in (-1, 0, 1, 900_000, 900_001):
            producer.init(f"time-out {timeout_ms}", timeout_ms=timeout_ms)
        for version in range(6):
            transcript.ask("an empty name", init(""), version)
            transcript.ask("no name", init(None), version)
            producer.init("another epoch", version)
        producer_id, epoch = producer.producer_id, producer.epoch
        for version in (3, 4, 5):
            producer.init(f"its own epoch, {version}", version, producer_id=producer_id, epoch=producer.epoch)
            producer.init(f"the epoch before, {version}", version, producer_id=producer_id, epoch=producer.epoch - 1)
            producer.init(f"an old epoch, {version}", version, producer_id=producer_id, epoch=epoch - 3)
            producer.init(f"an epoch to come, {version}", version, producer_id=producer_id, epoch=epoch + 99)
            producer.init(f"a stranger, {version}", version, producer_id=producer_id + 10_000, epoch=epoch)
            producer.init(f"half an identity, {version}", version, producer_id=producer_id)
            producer.init(f"the other half, {version}", version, epoch=epoch)

    same_answers(script)


def test_what_produce_says(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        for version in (3, 9, 10, 11):
            producer = TransactionalProducer(transcript, f"{topic}{version}").begin_life()
            other = TransactionalProducer(transcript, f"{topic}{version}-other").begin_life()
            producer.produce("before anything", topic, version=version)
            producer.add(f"partitions, {version}", topic, 1)
            producer.produce("another partition", topic, version=version)
            producer.add(f"the right partition, {version}", topic, 0)
            producer.produce("without its name", topic, version=version, transactional_id=None)
            producer.produce("under another name", topic, version=version, transactional_id=other.name)
            producer.produce("under an unknown name", topic, version=version, transactional_id="nobody")
            producer.produce("under an empty name", topic, version=version, transactional_id="")
            producer.produce("a newer epoch", topic, version=version, producer_epoch=9)
            producer.produce("as it should be", topic, version=version)
            producer.produce("out of order", topic, version=version, base_sequence=7)
            producer.produce("the same again", topic, version=version, base_sequence=0)
            producer.produce("outside of it", topic, version=version, attributes=0)
            producer.produce("a newer epoch, open", topic, version=version, producer_epoch=9)
            producer.end(f"the end, {version}", commit=True)
            producer.produce("too late", topic, version=version)
            producer.produce("the same again, too late", topic, version=version, base_sequence=0)
        note_log(transcript, "at the end", topic)

    same_answers(script)


def test_markers_of_administrators(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        for version in (1, 2):
            producer = TransactionalProducer(transcript, f"{topic}{version}").begin_life()
            producer.begin_life()
            producer.add(f"partitions, {version}", topic, 0)
            producer.produce(f"a batch, {version}", topic)
            producer.write_marker("an old epoch", topic, version=version, producer_epoch=0)
            producer.write_marker("an unknown partition", topic, 0, 9, version=version)
            producer.write_marker("once more", topic, version=version)
            producer.write_marker("a newer coordinator", topic, version=version, coordinator_epoch=9)
            producer.write_marker("an older coordinator", topic, version=version, coordinator_epoch=8)
            note_log(transcript, f"after version {version}", topic)

    same_answers(script)


def test_a_zombie_is_fenced(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        group = topic + "g"
        await_coordinator(transcript._wire, group)
        zombie = TransactionalProducer(transcript, topic).begin_life()
        zombie.add("partitions", topic, 0)
        zombie.add_offsets("offsets", group)
        zombie.produce("a batch", topic)
        zombie.commit_offset("an offset", group, topic, 7)
        following = TransactionalProducer(transcript, topic)
        following.init("while it is open")
        following.begin_life()
        zombie.produce("a batch of the zombie", topic)
        zombie.add("partitions of the zombie", topic, 1)
        zombie.commit_offset("an offset of the zombie", group, topic, 8)
        zombie.end("the end of the zombie", commit=True)
        transcript.ask("what is committed", fetch_offsets(group, [(topic, [0])], 7, stable=True), 7)
        following.add("partitions of the next", topic, 0)
        following.produce("a batch of the next", topic)
        following.end("the end of the next", commit=True)

    same_answers(script)


def test_offsets_of_groups(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        group = topic + "g"
        await_coordinator(transcript._wire, group, topic + "unknown")
        producer = TransactionalProducer(transcript, topic).begin_life()
        producer.commit_offset("outside of a transaction", group, topic, 1)
        producer.add_offsets("offsets", group)
        producer.add_offsets("offsets of another group", topic + "unknown")
        producer.commit_offset("a generation of no group", group, topic, 1, generation_id=3, member_id="m")
        producer.commit_offset("an offset", group, topic, 1)
        producer.commit_offset("a generation", group, topic, 1, generation_id=3, member_id="m")
        producer.commit_offset("a member", group, topic, 1, member_id="m")
        producer.commit_offset("an instance", group, topic, 1, group_instance_id="i")
        producer.commit_offset("no group", "", topic, 1)
        transcript.ask("a plain commit", commit(group, topic, (0, 5, "")), 7)
        transcript.ask("while it is open", fetch_offsets(group, [(topic, [0])], 7, stable=True), 7)
        producer.end("the end", commit=True)
        transcript.ask("afterwards", fetch_offsets(group, [(topic, [0])], 7, stable=True), 7)

    same_answers(script)


def test_listing(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        for state in ("a", "b", "c"):
            producer = TransactionalProducer(transcript, f"{topic}-{state}").begin_life()
            if state != "a":
                producer.add(f"partitions of {state}", topic, 0)
            if state == "c":
                producer.end(f"the end of {state}", commit=True)
        mine = f"{topic}-.*"
        for what, filters in {
            "all of mine": {"transactional_id_pattern": mine},
            "open ones": {"transactional_id_pattern": mine, "state_filters": ["Ongoing"]},
            "states": {"transactional_id_pattern": mine, "state_filters": ["Empty", "CompleteCommit", "Nonsense"]},
            "old ones": {"transactional_id_pattern": mine, "duration_filter": 100_000_000},
            "a producer": {"transactional_id_pattern": mine, "producer_id_filters": [1 << 40]},
            "a part of the name": {"transactional_id_pattern": topic},
            "no pattern": {"transactional_id_pattern": "(", "state_filters": ["Ongoing"]},
        }.items():
            answer = transcript.ask_quietly(list_transactions(**filters), 2)
            states = sorted((one.transactional_id, one.transaction_state) for one in answer.transaction_states)
            transcript.note(what, [answer.error_code, answer.unknown_state_filters, states])

    same_answers(script)
