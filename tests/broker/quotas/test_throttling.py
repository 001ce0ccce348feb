"""A client above a quota is answered with throttle_time_ms, and not served for that long (KIP-13, 124, 219)."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.quotas import throttling
from kmini.protocol.errors import NONE, InvalidFetchSessionEpoch
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.messages.share_fetch import ShareFetchRequest
from support.broker.fetching import append, of, request, values
from support.broker.quota_lab import QuotaLab, produce, size_of
from support.until import until_async

PRODUCER, CONSUMER, REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
METADATA = MetadataRequest(topics=[])
SMALL: dict[str, Any] = {"min_bytes": 0, "max_records": 1, "batch_size": 1, "forgotten_topics_data": []}
"""The rest of a share fetch."""


# --- produce


async def test_a_produce_above_its_quota_is_done_and_throttles_its_client(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {PRODUCER: 1_000.0})
    sent, client = produce(20_000), lab.client()
    answer = client.ask(sent, 9)
    assert answer.responses[0].partition_responses[0].error_code == NONE
    # The bytes of the request, over ten windows: those above the bound are over after so many seconds.
    assert answer.throttle_time_ms == size_of(sent, 9, "app") - 10_000
    assert not client.is_served
    await lab.advance(answer.throttle_time_ms - 1)
    assert not client.written
    await lab.advance(1)
    await until_async(lambda: len(client.written) == 1)


async def test_a_produce_within_its_quota_is_not_throttled(lab: QuotaLab) -> None:
    sent, client = produce(5_000), lab.client()
    await lab.set({"user": "ann"}, {PRODUCER: size_of(sent, 9, "app") // 10 + 1.0})
    assert client.ask(sent, 9).throttle_time_ms == 0
    assert client.is_served


async def test_a_produce_without_an_answer_throttles_its_client_too(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {PRODUCER: 1_000.0})
    client = lab.client()
    assert client.ask(produce(20_000, acks=0), 9) is None
    assert not client.is_served


async def test_other_users_are_not_throttled(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {PRODUCER: 1_000.0})
    ann, eve = lab.client("ann"), lab.client("eve")
    assert ann.ask(produce(20_000), 9).throttle_time_ms > 0
    assert eve.ask(produce(20_000), 9).throttle_time_ms == 0
    assert eve.is_served


@pytest.mark.parametrize(
    ("entity", "is_shared"), [({"user": "ann"}, True), ({"user": "ann", "client-id": None}, False)], ids=str
)
async def test_the_client_ids_of_a_user_share_a_quota_of_the_user(
    lab: QuotaLab, entity: dict[str, str | None], is_shared: bool
) -> None:
    await lab.set(entity, {PRODUCER: 1_000.0})
    assert lab.client("ann", "one").ask(produce(9_000), 9).throttle_time_ms == 0
    assert (lab.client("ann", "two").ask(produce(9_000), 9).throttle_time_ms > 0) is is_shared


# --- fetch


async def test_a_fetch_that_rules_guard_is_throttled_like_any_other(start_lab: Any) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    lab = await start_lab(authorizer_class_name=authorizer, super_users="User:ann")
    append(lab.broker, "t", bytes(9_000))
    await lab.set({"user": "ann"}, {CONSUMER: 100.0})
    answer = lab.client().ask(request("t", session_epoch=0), 11)
    assert answer.throttle_time_ms > 0
    assert (answer.session_id, answer.responses, len(lab.broker.fetch_sessions)) == (0, [], 0)


async def test_a_share_fetch_above_its_quota_keeps_its_answer(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {CONSUMER: 1.0})
    asked = ShareFetchRequest(group_id="g", member_id="", share_session_epoch=0, max_wait_ms=0, topics=[], **SMALL)
    answer = lab.client("eve").ask(asked, 1)
    assert answer.throttle_time_ms == 0
    client = lab.client()
    throttled = client.ask(asked, 1)
    assert throttled.throttle_time_ms > 0
    throttled.throttle_time_ms = 0
    assert throttled == answer
    assert not client.is_served


async def test_a_fetch_above_its_quota_gets_no_records_and_does_not_count(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {CONSUMER: 1_000.0})
    for _ in range(3):
        append(lab.broker, "t", bytes(6_000))
    client = lab.client()
    first = client.ask(request("t", partition_max_bytes=7_000), 11)
    assert len(values(of(first))) == 1
    assert first.throttle_time_ms == 0
    second = client.ask(request("t", offset=1, partition_max_bytes=7_000), 11)
    assert second.responses == []
    assert 0 < second.throttle_time_ms < 5_000
    assert not client.is_served
    await lab.advance(second.throttle_time_ms)
    await until_async(lambda: len(client.written) == 1)
    # It did not count: as soon as the first one is forgotten there is room for it.
    await lab.advance(11_000 - second.throttle_time_ms)
    again = client.ask(request("t", offset=1, partition_max_bytes=7_000), 11)
    assert (len(values(of(again))), again.throttle_time_ms) == (1, 0)


async def test_a_throttled_fetch_leaves_its_session_as_it_was(lab: QuotaLab) -> None:
    append(lab.broker, "t", bytes(9_000))
    client = lab.client()
    begun = client.ask(request("t", offset=1, session_epoch=0), 11)
    assert begun.session_id
    append(lab.broker, "t", bytes(9_000))
    await lab.set({"user": "ann"}, {CONSUMER: 100.0})
    go_on = request(session_id=begun.session_id, session_epoch=1)
    go_on.topics = []
    throttled = client.ask(go_on, 11)
    assert (throttled.error_code, throttled.session_id, throttled.responses) == (NONE, begun.session_id, [])
    assert throttled.throttle_time_ms > 0
    await lab.set({"user": "ann"}, {CONSUMER: None})
    other = lab.client()
    assert other.ask(go_on, 11).error_code == InvalidFetchSessionEpoch.code  # the throttled one was accepted
    go_on.session_epoch = 2
    assert len(values(of(other.ask(go_on, 11)))) == 1


async def test_a_throttled_fetch_begins_no_session(lab: QuotaLab) -> None:
    append(lab.broker, "t", bytes(9_000))
    await lab.set({"user": "ann"}, {CONSUMER: 100.0})
    answer = lab.client().ask(request("t", session_epoch=0), 11)
    assert answer.throttle_time_ms > 0
    assert (answer.session_id, answer.responses, len(lab.broker.fetch_sessions)) == (0, [], 0)


@pytest.mark.parametrize("min_bytes", [1, 1_000_000])
async def test_a_fetch_waits_for_and_gets_no_more_than_the_windows_of_its_quota_hold(
    lab: QuotaLab, min_bytes: int
) -> None:
    for _ in range(10):
        append(lab.broker, "t", bytes(1_000))
    await lab.set({"user": "ann"}, {CONSUMER: 500.0})
    asked = request("t", min_bytes=min_bytes, max_wait_ms=60_000)
    # With what is around its records it is a little above the quota, as in Kafka, and within it a moment later.
    throttle_ms = lab.client().ask(asked, 11).throttle_time_ms
    assert 0 < throttle_ms < 200
    await lab.advance(throttle_ms)
    answer = lab.client().ask(asked, 11)
    assert (len(of(answer).records), answer.throttle_time_ms) == (5_000, 0)


@pytest.mark.parametrize("version", [1, 3, 4, 12])
async def test_fetches_of_all_versions_are_throttled_again_and_again(lab: QuotaLab, version: int) -> None:
    for _ in range(20):
        append(lab.broker, "t", bytes(6_000))
    await lab.set({"user": "ann"}, {CONSUMER: 1_000.0})
    asked = request("t", session_epoch=-1, max_bytes=7_000, partition_max_bytes=7_000)
    for _ in range(3):
        client = lab.client()
        assert client.ask(asked, version).throttle_time_ms == 0
        throttled = client.ask(asked, version)
        assert throttled.throttle_time_ms > 0
        assert throttled.responses == []
        await lab.advance(12_000)


async def test_a_kept_fetch_asks_the_quota_that_came_after_it(lab: QuotaLab) -> None:
    for _ in range(3):
        append(lab.broker, "t", bytes(9_000))
    client = lab.client()
    asked = request("t", session_epoch=-1)
    assert [len(values(of(client.ask(asked, 11)))) for _ in range(2)] == [3, 3]
    await lab.set({"user": "ann"}, {CONSUMER: 100.0})
    assert client.ask(asked, 11).throttle_time_ms > 0


async def test_a_follower_is_not_throttled(lab: QuotaLab) -> None:
    append(lab.broker, "t", bytes(9_000))
    await lab.set({"user": "ann"}, {CONSUMER: 100.0, REQUESTS: 0.000_001})
    client = lab.client()
    assert client.ask(request("t", replica_id=2), 11).throttle_time_ms == 0
    assert client.ask(request("t", replica_id=2), 11) is not None


# --- request_percentage


async def test_requests_above_their_share_of_the_loop_throttle_their_client(
    lab: QuotaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    elapsed_s = iter(range(100))
    monkeypatch.setattr(throttling, "perf_counter", lambda: next(elapsed_s) * 0.05)
    await lab.set({"user": "ann"}, {REQUESTS: 1.0})
    client = lab.client()
    # 50 ms each: 5 percent of a second, so ten seconds have room for two.
    answers = [client.ask(METADATA, 9).throttle_time_ms for _ in range(3)]
    assert answers == [0, 0, 1_000]  # by the rate 5 s, and at most a window
    assert not client.is_served
    assert lab.client("eve").ask(METADATA, 9).throttle_time_ms == 0


async def test_the_time_that_a_request_waits_does_not_count(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {REQUESTS: 50.0})
    client = lab.client()
    waiting = request("t", max_wait_ms=60_000)
    assert client.ask(waiting, 11) is None
    await lab.advance(60_000)
    await until_async(lambda: len(client.written) == 1)
    assert client.answer(waiting, 11).throttle_time_ms == 0


async def test_a_request_that_waits_is_answered_when_the_wait_ends(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {REQUESTS: 50.0, CONSUMER: 1_000_000.0})
    client = lab.client()
    waiting = request("t", max_wait_ms=60_000)
    assert client.ask(waiting, 11) is None
    lab.client("eve").ask(produce(10), 9)
    await until_async(lambda: len(client.written) == 1)
    assert len(values(of(client.answer(waiting, 11)))) == 1


async def test_a_request_without_effect_of_quotas_is_answered_as_without_them(lab: QuotaLab) -> None:
    answers = []
    for quotas in ({}, {PRODUCER: 1e6, CONSUMER: 1e6, REQUESTS: 1e6}):
        await lab.set({"user": "ann"}, quotas)
        client = lab.client()
        answers.append([client.ask(METADATA, 9), client.ask(request("t"), 11)])
    assert answers[0] == answers[1]
