"""The creation of internal topics: what hinders it is remembered, and no topic is made twice at once."""

from __future__ import annotations

import asyncio

from kmini.broker.clock import MovableClock
from kmini.broker.groups.streams.internal_topics import MOST_FAILURES, InternalTopics
from kmini.broker.groups.streams.topology import InternalTopic
from support.broker.streams_lab import StreamsLab


async def test_topics_are_made_together_and_those_that_exist_are_left_alone(lab: StreamsLab) -> None:
    maker = InternalTopics(lab.clock)
    wanted = [InternalTopic("t", 9), InternalTopic("c", 2, 1, (("cleanup.policy", "compact"),))]
    assert await maker.create(lab.broker.services, wanted, retry_after_ms=10) == {}
    assert len(lab.broker.controller.topics["t"].partitions) == 4
    assert len(lab.broker.controller.topics["c"].partitions) == 2


async def test_each_topic_that_cannot_be_made_has_its_reason_and_does_not_hinder_others(lab: StreamsLab) -> None:
    maker = InternalTopics(lab.clock)
    wanted = [InternalTopic("c", 1, 5), InternalTopic("d", 1, 1, (("no.such", "1"),)), InternalTopic("e", 1)]
    failures = await maker.create(lab.broker.services, wanted, retry_after_ms=10)
    assert failures.keys() == {"c", "d"}
    assert "no.such" in failures["d"]
    assert "e" in lab.broker.controller.topics


async def test_a_failure_is_told_without_another_try_until_its_time_is_over(lab: StreamsLab) -> None:
    maker = InternalTopics(lab.clock)
    failures = await maker.create(lab.broker.services, [InternalTopic("c", 1, 5)], retry_after_ms=10)
    possible = [InternalTopic("c", 1)]
    await lab.pass_time(9)
    assert await maker.create(lab.broker.services, possible, retry_after_ms=10) == failures
    await lab.pass_time(1)
    assert await maker.create(lab.broker.services, possible, retry_after_ms=10) == {}
    assert "c" in lab.broker.controller.topics


async def test_two_at_once_make_a_topic_once(lab: StreamsLab) -> None:
    maker = InternalTopics(lab.clock)
    wanted = [InternalTopic(f"c{number}", 1) for number in range(20)]
    both = (maker.create(lab.broker.services, wanted, retry_after_ms=10) for _ in range(2))
    assert await asyncio.gather(*both) == [{}, {}]
    assert {*lab.broker.controller.topics} >= {each.name for each in wanted}


async def test_so_many_failures_are_remembered_and_no_more(lab: StreamsLab) -> None:
    maker = InternalTopics(MovableClock())
    wanted = [InternalTopic(f"c{number}", 1, 5) for number in range(MOST_FAILURES + 1)]
    failures = await maker.create(lab.broker.services, wanted, retry_after_ms=60_000)
    assert len(failures) == MOST_FAILURES
