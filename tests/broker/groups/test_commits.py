"""The offsets of one OffsetCommit: gathered, checked, and written as one batch, with an answer for each partition."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kmini.broker.groups.commits import Commit
from kmini.broker.groups.group_store import GroupStore
from kmini.protocol.errors import IllegalGeneration, OffsetMetadataTooLarge, UnknownServerError
from kmini.protocol.topics import TopicPartition
from support.broker.stored_groups import OFFSET, PARTITION

NONE = 0


def an_answer() -> SimpleNamespace:
    return SimpleNamespace(error_code=NONE)


async def written() -> None:
    """A write that succeeds."""


async def test_metadata_that_is_too_large_refuses_its_partition_only(store: GroupStore) -> None:
    commit, answers = Commit(store, "g"), [an_answer(), an_answer()]
    longest = "m" * store.max_metadata_characters
    commit.add(PARTITION, OFFSET._replace(metadata=longest), answers[0])
    commit.add(TopicPartition("orders", 4), OFFSET._replace(metadata=longest + "m"), answers[1])
    await commit.settle(written, "a commit")
    assert [answer.error_code for answer in answers] == [NONE, OffsetMetadataTooLarge.code]
    assert [partition for partition, _ in commit.changes.outcome] == [PARTITION]


async def test_an_error_of_the_write_is_in_every_answer(store: GroupStore) -> None:
    commit, answers = Commit(store, "g"), [an_answer(), an_answer()]
    for number, answer in enumerate(answers):
        commit.add(TopicPartition("orders", number), OFFSET, answer)

    async def refuse() -> None:
        raise IllegalGeneration("the generation is 2, not 1")

    await commit.settle(refuse, "a commit")
    assert [answer.error_code for answer in answers] == [IllegalGeneration.code] * 2


async def test_without_partitions_there_is_no_write(store: GroupStore) -> None:
    async def fail() -> None:
        raise AssertionError("the write was run")

    await Commit(store, "g").settle(fail, "a commit")


async def test_more_offsets_than_a_batch_can_take_are_refused_when_they_are_written(store: GroupStore) -> None:
    commit = Commit(store, "g")
    metadata = "m" * store.max_metadata_characters
    for number in range(600):
        commit.add(TopicPartition("orders", number), OFFSET._replace(metadata=metadata), an_answer())
    with pytest.raises(UnknownServerError, match="more than one batch"):
        _ = commit.changes
