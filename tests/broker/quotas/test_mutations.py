"""Partitions that are created and deleted are counted, and refused above the quota where clients know it (KIP-599)."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.protocol.errors import NONE, ThrottlingQuotaExceeded, UnknownTopicOrPartition
from kmini.protocol.messages.create_partitions import CreatePartitionsRequest
from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.delete_topics import DeleteTopicsRequest
from kmini.protocol.messages.metadata import MetadataRequest
from support.broker.quota_lab import QuotaClient, QuotaLab
from support.until import until_async

MUTATIONS = "controller_mutation_rate"
EXCEEDED = ThrottlingQuotaExceeded.code


def create(*partitions: int, start: int = 0, **options: Any) -> CreateTopicsRequest:
    """Topics t0, t1, ..., with so many partitions."""
    Topic = CreateTopicsRequest.Topic
    topics = [
        Topic(name=f"t{number}", num_partitions=count, replication_factor=1)
        for number, count in enumerate(partitions, start)
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1_000, **options)


async def outcome(client: QuotaClient, asked: CreateTopicsRequest, version: int) -> tuple[list[int], int]:
    client.ask(asked, version)
    await until_async(lambda: bool(client.written))
    answer = client.answer(asked, version)
    return [topic.error_code for topic in answer.topics], answer.throttle_time_ms


async def test_what_is_above_the_quota_is_refused_and_the_client_throttled(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {MUTATIONS: 1.0})
    client = lab.client()
    # Eleven tokens: the second topic takes more than there are, and the third has to wait for them.
    assert await outcome(client, create(6, 7, 1), 7) == ([NONE, NONE, EXCEEDED], 2_000)
    assert [lab.broker.controller.topic(name) is not None for name in ("t0", "t1", "t2")] == [True, True, False]
    assert not client.is_served
    await lab.advance(2_000)
    await until_async(lambda: len(client.written) == 1)
    assert await outcome(client, create(1, start=2), 7) == ([NONE], 0)


@pytest.mark.parametrize(("version", "is_strict"), [(5, False), (6, True)])
async def test_older_clients_are_served_and_throttled(lab: QuotaLab, version: int, is_strict: bool) -> None:
    await lab.set({"user": "ann"}, {MUTATIONS: 1.0})
    codes, throttle_ms = await outcome(lab.client(), create(12, 1), version)
    assert codes == [NONE, EXCEEDED if is_strict else NONE]
    assert throttle_ms == (1_000 if is_strict else 2_000)


@pytest.mark.parametrize(("version", "is_strict"), [(2, False), (3, True)])
async def test_added_partitions_count(lab: QuotaLab, version: int, is_strict: bool) -> None:
    await lab.set({"user": "ann"}, {MUTATIONS: 1.0})
    assert await outcome(lab.client(), create(10), 7) == ([NONE], 0)
    Topic = CreatePartitionsRequest.Topic
    told = []
    for total in (12, 13):
        asked = CreatePartitionsRequest(topics=[Topic(name="t0", count=total, assignments=None)], timeout_ms=1_000)
        answer = lab.client().ask(asked, version)
        told.append((answer.results[0].error_code, answer.throttle_time_ms))
    assert told == ([(NONE, 0), (EXCEEDED, 1_000)] if is_strict else [(NONE, 1_000), (NONE, 2_000)])


@pytest.mark.parametrize(("version", "is_strict"), [(4, False), (5, True)])
async def test_deleted_partitions_count(lab: QuotaLab, version: int, is_strict: bool) -> None:
    await lab.set({"user": "ann"}, {MUTATIONS: 1.0})
    assert await outcome(lab.client(), create(6, 1), 7) == ([NONE, NONE], 0)
    answer = lab.client().ask(DeleteTopicsRequest(topic_names=["t0", "t1"], timeout_ms=1_000), version)
    assert [one.error_code for one in answer.responses] == [NONE, EXCEEDED if is_strict else NONE]
    assert answer.throttle_time_ms == (2_000 if is_strict else 3_000)


async def test_a_client_above_the_quota_creates_no_topics_by_asking_for_them(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {MUTATIONS: 1.0})
    assert await outcome(lab.client(), create(12), 7) == ([NONE], 0)
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name="new")], allow_auto_topic_creation=True)
    answer = lab.client().ask(asked, 9)
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (UnknownTopicOrPartition.code, 0)
    assert lab.client("eve").ask(asked, 9).topics[0].error_code == NONE


async def test_other_users_create_as_they_like(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {MUTATIONS: 1.0})
    assert await outcome(lab.client(), create(20), 7) == ([NONE], 0)
    assert (await outcome(lab.client(), create(1, start=1), 7))[0] == [EXCEEDED]
    assert await outcome(lab.client("eve"), create(1, start=1), 7) == ([NONE], 0)


async def test_the_settings_of_the_windows_count(start_lab: Any) -> None:
    lab = await start_lab(controller_quota_window_num=2, controller_quota_window_size_seconds=3)
    await lab.set({"user": "ann"}, {MUTATIONS: 1.0})
    assert await outcome(lab.client(), create(7, 1), 7) == ([NONE, EXCEEDED], 1_000)
