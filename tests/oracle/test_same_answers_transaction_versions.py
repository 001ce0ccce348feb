"""The second version of transactions (KIP-890): we answer the same requests as Apache Kafka does, and leave the same in
the log."""

from __future__ import annotations

from typing import Any

from support.offset_requests import await_coordinator
from support.offset_requests import fetch as fetch_offsets
from support.transaction_logs import note_log, note_producers
from support.transaction_requests import TransactionalProducer, describe
from support.transcript import SameAnswers, Transcript

JOINS = {"version": 12}
RAISES = {"version": 5}


def note_transaction(transcript: Transcript, what: str, *names: str) -> None:
    answer = transcript.ask_quietly(describe(*names), 0)
    states = [
        (
            one.error_code,
            one.transaction_state,
            one.producer_epoch,
            one.transaction_start_time_ms > 0,
            sorted((topic.topic, sorted(topic.partitions)) for topic in one.topics),
        )
        for one in answer.transaction_states
    ]
    transcript.note(f"transactions {what}", states)


def test_a_life_with_commits_and_aborts(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        producer = TransactionalProducer(transcript, topic).begin_life()
        for number, is_commit in enumerate((True, False, True)):
            what = f"in transaction {number}"
            producer.produce(f"a batch {what}", topic, **JOINS)
            producer.produce(f"another batch {what}", topic, **JOINS)
            note_transaction(transcript, f"{what}, open", topic)
            before = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
            producer.end(f"the end {what}", commit=is_commit, **RAISES)
            note_transaction(transcript, f"{what}, ended", topic)
            note_log(transcript, f"{what}, ended", topic)
            note_producers(transcript, f"{what}, ended", topic)
            producer.end(f"the end once more {what}", commit=is_commit, **RAISES, **before)
            producer.end(f"the other end {what}", commit=not is_commit, **RAISES, **before)
            late = {"producer_epoch": producer.epoch - 1, "base_sequence": 2}
            producer.produce(f"a late batch {what}", topic, **JOINS, **late)
            producer.produce(f"a late batch for another partition {what}", topic, partition=1, **JOINS, **late)
            producer.end(f"a commit of nothing {what}", commit=True, **RAISES)

    same_answers(script)


def test_ends_of_nothing_and_of_the_first_version(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        producer = TransactionalProducer(transcript, topic).begin_life()
        fields: dict[str, Any]
        producer.end("a commit, empty", commit=True, **RAISES)
        producer.end("an abort, empty", commit=False, **RAISES)
        producer.end("the abort again", commit=False, **RAISES, producer_epoch=0)
        producer.end("another abort", commit=False, **RAISES)
        producer.end("a commit of the first version", commit=True, version=4)
        producer.end("an abort of the first version", commit=False, version=4)
        note_transaction(transcript, "after these", topic)
        for what, fields in {
            "of an epoch too high": {"producer_epoch": producer.epoch + 1},
            "of an old epoch": {"producer_epoch": producer.epoch - 2},
            "of a stranger": {"producer_id": producer.producer_id + 10_000},
            "of an unknown name": {"transactional_id": topic + "x"},
            "of no name": {"transactional_id": ""},
        }.items():
            for is_commit in (True, False):
                producer.end(f"{'commit' if is_commit else 'abort'} {what}", commit=is_commit, **RAISES, **fields)
        note_transaction(transcript, "at the end", topic)

    same_answers(script)


def test_a_producer_goes_from_one_version_to_the_other(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        producer = TransactionalProducer(transcript, topic).begin_life()
        for number in range(2):
            producer.produce(f"a batch of the second version {number}", topic, **JOINS)
            producer.end(f"the end of the second version {number}", commit=True, **RAISES)
            producer.add(f"partitions {number}", topic, 0)
            producer.produce(f"a batch of the first version {number}", topic, version=11)
            producer.end(f"the end of the first version {number}", commit=True, version=4)
            producer.end(f"the same of the second version {number}", commit=True, **RAISES)
        producer.add("partitions of the first version", topic, 0)
        producer.produce("a batch", topic, **JOINS)
        producer.produce("a batch to another partition", topic, partition=1, base_sequence=0, **JOINS)
        producer.end("the end of both", commit=False, **RAISES)
        note_log(transcript, "at the end", topic)
        note_producers(transcript, "at the end", topic)

    same_answers(script)


def test_what_produce_says(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        producer = TransactionalProducer(transcript, topic).begin_life()
        other = TransactionalProducer(transcript, topic + "-other").begin_life()
        producer.produce("an unknown producer, not from 0", topic, **JOINS, base_sequence=5)
        note_transaction(transcript, "after that", topic)
        producer.produce("without its name", topic, **JOINS, transactional_id=None)
        producer.produce("under another name", topic, **JOINS, transactional_id=other.name)
        producer.produce("under an unknown name", topic, **JOINS, transactional_id="nobody")
        producer.produce("under an empty name", topic, **JOINS, transactional_id="")
        producer.produce("a newer epoch", topic, **JOINS, producer_epoch=9)
        producer.produce("no such partition", topic, partition=9, **JOINS)
        producer.produce("as it should be", topic, **JOINS, base_sequence=0)
        producer.produce("out of order", topic, **JOINS, base_sequence=7)
        producer.produce("the same again", topic, **JOINS, base_sequence=0)
        producer.produce("outside of it", topic, **JOINS, attributes=0)
        producer.produce("a newer epoch, open", topic, **JOINS, producer_epoch=9)
        producer.produce("verified in a partition that joined", topic, version=11)
        producer.produce("verified in another one", topic, partition=1, version=11, base_sequence=0)
        producer.produce("verified in another one, before", topic, partition=1, version=10, base_sequence=0)
        note_transaction(transcript, "at the end", topic)
        producer.end("the end", commit=True, **RAISES)
        producer.produce("not from 0 in the next", topic, **JOINS, base_sequence=1)
        producer.produce("from 0 in the next", topic, **JOINS, base_sequence=0)
        note_log(transcript, "at the end", topic)

    same_answers(script)


def test_offsets_of_groups(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        group = topic + "g"
        await_coordinator(transcript._wire, group)
        producer = TransactionalProducer(transcript, topic).begin_life()
        for number, is_commit in enumerate((True, False)):
            what = f"in transaction {number}"
            producer.commit_offset(f"an offset {what}", group, topic, number + 1, **RAISES)
            producer.commit_offset(f"a generation of no group {what}", group, topic, 1, **RAISES, generation_id=3)
            producer.commit_offset(f"no group {what}", "", topic, 1, **RAISES)
            stable = fetch_offsets(group, [(topic, [0])], 7, stable=True)
            transcript.ask(f"while it is open {what}", stable, 7)
            producer.end(f"the end {what}", commit=is_commit, **RAISES)
            transcript.ask(f"afterwards {what}", stable, 7)
            late = {"producer_epoch": producer.epoch - 1}
            producer.commit_offset(f"a late offset {what}", group, topic, 9, **RAISES, **late)
            producer.commit_offset(f"a late offset of the first version {what}", group, topic, 9, version=4, **late)
        stranger = {"producer_id": producer.producer_id + 10_000}
        producer.commit_offset("an offset of a stranger", group, topic, 9, **RAISES, **stranger)
        producer.commit_offset("an offset of an unknown name", group, topic, 9, **RAISES, transactional_id="nobody")
        note_transaction(transcript, "at the end", topic)

    same_answers(script)


def test_a_new_owner_and_the_return_of_the_old_one(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        zombie = TransactionalProducer(transcript, topic).begin_life()
        zombie.produce("a batch", topic, **JOINS)
        following = TransactionalProducer(transcript, topic)
        following.init("while it is open")
        following.wait()
        note_transaction(transcript, "after the fence", topic)
        zombie.produce("a batch of the zombie", topic, **JOINS)
        zombie.produce("a batch of the zombie elsewhere", topic, partition=1, base_sequence=0, **JOINS)
        zombie.end("a commit of the zombie", commit=True, **RAISES)
        old = {"producer_id": zombie.producer_id, "epoch": zombie.epoch}
        zombie.init("the zombie by its old epoch", **old)
        zombie.init("the zombie again", **old)
        note_transaction(transcript, "after its return", topic)
        following.begin_life()
        zombie.end("an abort of the zombie", commit=False, **RAISES)
        following.produce("a batch of the next", topic, **JOINS)
        following.end("the end of the next", commit=True, **RAISES)
        note_log(transcript, "at the end", topic)
        note_producers(transcript, "at the end", topic)

    same_answers(script)


def test_what_brokers_ask(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        await_coordinator(transcript._wire, topic)  # so that there is the internal topic
        for version in (4, 5):
            producer = TransactionalProducer(transcript, f"{topic}{version}").begin_life()
            producer.add("verified before", topic, 0, version=version, verify_only=True)
            producer.add("added", topic, 0, version=version)
            producer.add("verified", topic, 0, 1, version=version, verify_only=True)
            producer.add("an unknown partition", topic, 0, 9, version=version)
            producer.add("an internal one", "__consumer_offsets", 0, version=version)
            producer.add("of a wrong epoch", topic, 1, version=version, producer_epoch=7)
            producer.add("of a stranger", topic, 1, version=version, producer_id=producer.producer_id + 10_000)
            producer.add("of an unknown name", topic, 1, version=version, transactional_id="nobody")
            note_transaction(transcript, f"of version {version}", producer.name)
            producer.end(f"the end {version}", commit=True, **RAISES)
            producer.add("verified after", topic, 0, version=version, verify_only=True)

    same_answers(script)
