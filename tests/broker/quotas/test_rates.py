"""Rates and buckets count as Apache Kafka's `Rate` and `TokenBucket` do."""

from __future__ import annotations

import pytest

from kmini.broker.quotas import rates
from kmini.broker.quotas.rates import IDLE_MS, Rate, Sensors, TokenBucket, Windows, rounded

ELEVEN = Windows(11, 1_000)


def test_a_new_rate_is_over_all_windows_but_one() -> None:
    rate = Rate(ELEVEN)
    rate.record(1_000, 5)
    assert rate.window_ms(5) == 10_000
    assert rate.per_second(5) == 100


def test_the_time_of_the_window_that_goes_on_counts_too() -> None:
    rate = Rate(ELEVEN)
    rate.record(1_000, 0)
    assert rate.window_ms(400) == 10_400
    assert rate.window_ms(1_400) == 10_400
    assert rate.window_ms(10_500) == 10_500


def test_a_rate_at_its_bound_is_not_throttled_and_one_above_it_until_it_is_back() -> None:
    rate = Rate(ELEVEN)
    rate.record(1_000, 0)
    assert rate.throttle_ms(100, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_ms(100, 0) == 10
    assert rate.throttle_ms(10, 0) == 90_100


def test_a_sample_is_gone_when_all_windows_have_passed_since_its_last_event() -> None:
    rate = Rate(ELEVEN)
    rate.record(500, 0)
    rate.record(500, 900)
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_899) > 0
    assert rate.per_second(11_900) == 0


def test_there_is_one_sample_more_than_windows_and_then_the_oldest_starts_anew() -> None:
    rate = Rate(Windows(2, 1_000))
    for number in range(6):
        rate.record(10, number * 1_000)
    # The samples of 3 s, 4 s and 5 s are there; that of 3 s has had no event for both windows.
    assert rate.window_ms(5_000) == 1_000
    assert rate.per_second(5_000) == 20


def test_what_is_taken_back_does_not_count() -> None:
    rate = Rate(ELEVEN)
    rate.record(1_000, 0)
    rate.record(-1_000, 0)
    assert rate.per_second(0) == 0


def test_one_window_alone_is_measured_over_a_millisecond_at_least() -> None:
    rate = Rate(Windows(1, 1_000))
    rate.record(7, 0)
    assert rate.window_ms(0) == 1
    assert rate.per_second(0) == 7_000


@pytest.mark.parametrize(("time_ms", "whole"), [(0.49, 0), (0.5, 1), (1.5, 2), (2.5, 3), (1e30, 2**31 - 1)])
def test_times_are_rounded_as_in_java_and_fit_into_an_answer(time_ms: float, whole: int) -> None:
    assert rounded(time_ms) == whole


def test_a_bucket_begins_with_the_tokens_of_all_windows() -> None:
    bucket = TokenBucket(ELEVEN)
    bucket.record(22, 2, 0)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.record(1, 2, 0)
    assert bucket.throttle_ms(2, 0) == 500
    assert bucket.throttle_ms(2, 250) == 250
    assert bucket.throttle_ms(2, 500) == 0


def test_a_bucket_holds_no_more_than_the_tokens_of_all_windows() -> None:
    bucket = TokenBucket(ELEVEN)
    bucket.record(0, 1, 0)
    bucket.record(12, 1, 3_600_000)
    assert bucket.throttle_ms(1, 3_600_000) == 1_000


# --- what is kept of them


def test_who_shares_a_quota_has_one_rate() -> None:
    kept: Sensors[list[int]] = Sensors(list)
    assert kept.get("ann", 0) is kept.get("ann", 1)
    assert kept.get("ann", 0) is not kept.get("eve", 0)


def test_what_is_not_used_for_an_hour_is_forgotten() -> None:
    kept: Sensors[list[int]] = Sensors(list)
    ann, eve = kept.get("ann", 0), kept.get("eve", 0)
    kept.get("ann", IDLE_MS - 1)
    kept.get("bob", IDLE_MS)
    assert len(kept) == 2
    assert kept.get("ann", IDLE_MS) is ann
    assert kept.get("eve", IDLE_MS) is not eve


def test_there_is_an_end_to_how_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_SENSORS", 3)
    kept: Sensors[list[int]] = Sensors(list)
    first = kept.get("0", 0)
    for number in range(1, 10):
        kept.get(str(number), 0)
        assert kept.get("0", 0) is first
        assert len(kept) <= 3
