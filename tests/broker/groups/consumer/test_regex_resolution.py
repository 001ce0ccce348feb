"""Regular expressions: which topics they stand for, and when they are resolved (KIP-848)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kmini.broker import scheduler
from kmini.broker.groups.consumer.heartbeat_fields import Beat
from kmini.broker.groups.consumer.members import Expression
from kmini.broker.groups.consumer.regex_resolution import LEAST_INTERVAL_MS
from kmini.broker.groups.consumer.state_changes import ExpressionChange
from kmini.protocol.errors import NotEnoughReplicas
from support.broker.consumer_lab import START_MS, ConsumerLab

NewLab = Callable[..., Awaitable[ConsumerLab]]

ALL = [0, 1, 2, 3]
REFRESH_MS = 600_000


def topics_of(lab: ConsumerLab, regex: str) -> set[str]:
    return {*lab.group.expressions[regex].topics}


async def resolved(lab: ConsumerLab) -> None:
    await lab.groups.writes_done()


async def test_a_group_is_answered_before_its_expression_is_resolved(
    consumer_lab: ConsumerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer in a new group is epoch 1 without partitions; the next heartbeats get them."""
    lab = consumer_lab
    monkeypatch.setattr(scheduler, "_TURN_S", 0.0)
    assert (await lab.join("a", regex="ord.*"))[2:4] == (1, {})
    monkeypatch.undo()
    await resolved(lab)
    assert lab.epochs == (2, 1)
    assert (await lab.beat("a", 1))[2:4] == (2, {"orders": ALL})
    assert (lab.epochs, lab.state) == ((2, 2), "Stable")


async def test_a_resolution_is_written_before_the_epoch_that_follows_from_it(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", regex="ord.*")
    await resolved(lab)
    (kind, regex, change), (last, _, _) = lab.changes()[-2:]
    assert (kind, regex, last) == (16, "ord.*", 3)
    version = lab.broker.controller.topic_changes
    assert change == ExpressionChange("ord.*", Expression(frozenset({"orders"}), version, START_MS))


@pytest.mark.parametrize(
    ("regex", "topics"),
    [
        ("orders", {"orders"}),
        ("order", set()),
        ("rders", set()),
        ("o.*", {"orders", "others"}),
        ("orders|others", {"orders", "others"}),
        ("__.*", {"__consumer_offsets"}),
        (".*", {"orders", "others", "__consumer_offsets"}),
        ("nothing.*", set()),
    ],
)
async def test_the_whole_name_matches(consumer_lab: ConsumerLab, regex: str, topics: set[str]) -> None:
    consumer_lab.add_topics("others")
    await consumer_lab.join("a", regex=regex)
    await resolved(consumer_lab)
    assert topics_of(consumer_lab, regex) == topics


@pytest.mark.parametrize("regex", ["(", "[", "a**", "(?<name>x", "\\1", "(?=x)"])
async def test_what_is_no_expression_of_re2_is_refused_and_changes_nothing(
    consumer_lab: ConsumerLab, regex: str
) -> None:
    lab = consumer_lab
    refused = await lab.join("a", regex=regex)
    assert refused.error == "INVALID_REGULAR_EXPRESSION"
    assert refused.message
    assert "g" not in lab.groups.groups
    await lab.join("a", "orders")
    end = lab.end
    assert (await lab.beat("a", 2, regex=regex)).error == "INVALID_REGULAR_EXPRESSION"
    assert lab.end == end
    assert (await lab.beat("a", 2)).error == "NONE"


async def test_names_and_an_expression_add_up(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    lab.add_topics("others", "rest")
    await lab.join("a", "rest", regex="o.*")
    await resolved(lab)
    await lab.pass_time(1_000)
    assert (await lab.beat("a", lab.group.current("a").epoch)).assigned == {
        "orders": ALL,
        "others": ALL,
        "rest": ALL,
    }


async def test_an_expression_that_is_resolved_in_the_group_counts_at_once(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", regex="o.*")
    await resolved(lab)
    await lab.beat("a", 1)
    await lab.pass_time(1_000)
    assert (await lab.join("b", regex="o.*"))[2:4] == (3, {})
    assert lab.epochs == (3, 3)
    await lab.settle("a", "b")


async def test_another_expression_waits_for_its_resolution(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    lab.add_topics("others")
    await lab.join("a", regex="ord.*")
    await resolved(lab)
    await lab.beat("a", 1)
    await lab.pass_time(LEAST_INTERVAL_MS)
    since = lab.end
    assert (await lab.beat("a", 2, regex="oth.*"))[2:4] == (2, {})
    await resolved(lab)
    assert lab.types(since) == [(5, "a"), (-16, "ord.*"), (8, "a"), (16, "oth.*"), (3, "")]
    assert (await lab.beat("a", 2, owned={}))[2:4] == (3, {"others": ALL})


async def test_an_empty_expression_removes_it_and_begins_an_epoch(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", regex="o.*")
    await resolved(lab)
    await lab.beat("a", lab.group.current("a").epoch)
    epoch = lab.group.epoch
    since = lab.end
    await lab.beat("a", lab.group.current("a").epoch, regex="")
    assert lab.types(since)[:3] == [(5, "a"), (-16, "o.*"), (3, "")]
    assert (lab.group.epoch, lab.group.expressions) == (epoch + 1, {})
    assert lab.group.subscribed_topics() == {"orders"}


@pytest.mark.parametrize("way", ["leave", "change", "session"])
async def test_an_expression_stays_until_its_last_subscriber_goes(consumer_lab: ConsumerLab, way: str) -> None:
    lab = consumer_lab

    async def go(member_id: str) -> None:
        if way == "leave":
            await lab.leave(member_id)
        elif way == "change":
            await lab.beat(member_id, lab.group.current(member_id).epoch, regex="", names=["orders"])
        else:
            await lab.groups.expel("g", member_id, "its session is over")

    await lab.join("a", regex="o.*")
    await lab.join("b", regex="o.*")
    await resolved(lab)
    await go("a")
    assert topics_of(lab, "o.*") == {"orders"}
    since = lab.end
    await go("b")
    assert (-16, "o.*") in lab.types(since)
    assert lab.group.expressions == {}


# --- when


async def test_a_new_topic_is_found_ten_seconds_after_the_last_resolution(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", regex="o.*")
    await resolved(lab)
    await lab.beat("a", 1)
    lab.add_topics("others")
    await lab.pass_time(LEAST_INTERVAL_MS - 1)
    await lab.beat("a", 2)
    await resolved(lab)
    assert topics_of(lab, "o.*") == {"orders"}
    await lab.pass_time(1)
    await lab.beat("a", 2)
    await resolved(lab)
    assert topics_of(lab, "o.*") == {"orders", "others"}
    assert (await lab.beat("a", 2))[2:4] == (3, {"orders": ALL, "others": ALL})


async def test_an_expression_that_comes_soon_after_a_resolution_waits_for_the_next(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", regex="ord.*")
    await resolved(lab)
    await lab.join("b", regex="o.*")
    await resolved(lab)
    assert "o.*" not in lab.group.expressions
    await lab.pass_time(LEAST_INTERVAL_MS)
    await lab.beat("a", lab.group.current("a").epoch)  # of any member
    await resolved(lab)
    assert topics_of(lab, "o.*") == {"orders"}


async def test_nothing_is_resolved_again_while_no_topic_changes(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", regex="o.*")
    await resolved(lab)
    await lab.beat("a", 1)
    since = lab.end
    for _ in range(REFRESH_MS // 20_000 - 1):
        await lab.pass_time(20_000)
        await lab.beat("a", 2)
    await resolved(lab)
    assert lab.types(since) == []
    await lab.pass_time(20_000)
    await lab.beat("a", 2)
    await resolved(lab)
    assert lab.types(since) == [(16, "o.*")]  # of the same topics: no epoch begins
    assert lab.epochs == (2, 2)


async def test_topics_come_and_go_by_the_rights_of_the_client_that_asks(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    lab.add_topics("others")
    beat = Beat("g", "a", 0, None, None, 1000, None, "o.*", None, {}, "c", "/h", 1)
    await lab.groups.consumer.heartbeat(beat, lambda topic: topic != "others")
    await resolved(lab)
    assert topics_of(lab, "o.*") == {"orders"}


async def test_a_resolution_that_cannot_be_stored_changes_nothing_and_comes_again(
    consumer_lab: ConsumerLab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = consumer_lab
    monkeypatch.setattr(scheduler, "_TURN_S", 0.0)
    await lab.join("a", regex="o.*")
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    await resolved(lab)
    assert (lab.group.expressions, lab.epochs) == ({}, (1, 1))
    assert "one of two" in caplog.text
    lab.refuse_appends(None)
    await lab.pass_time(LEAST_INTERVAL_MS)
    await lab.beat("a", 1)
    await resolved(lab)
    assert topics_of(lab, "o.*") == {"orders"}


async def test_a_group_goes_on_while_its_expressions_are_resolved(
    consumer_lab: ConsumerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that leaves meanwhile takes its expression with it."""
    lab = consumer_lab
    lab.add_topics(*(f"t{number}" for number in range(30)), partitions=1)
    await lab.join("b", "orders")
    monkeypatch.setattr(scheduler, "_TURN_S", 0.0)
    await lab.join("a", regex="t.*")
    assert lab.group.is_resolving
    assert (await asyncio.gather(lab.beat("b", 2), lab.leave("a")))[1].error == "NONE"
    await resolved(lab)
    assert not lab.group.is_resolving
    assert (lab.group.expressions, [*lab.group.memberships]) == ({}, ["b"])


async def test_expressions_come_back_after_a_restart(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", regex="o.*")
    await resolved(lab)
    await lab.beat("a", 1)
    before = dict(lab.group.expressions)
    await lab.restart()
    assert lab.group.expressions == before
    assert (await lab.beat("a", 2))[2:4] == (2, None)
    await resolved(lab)
    assert lab.epochs == (2, 2)


async def test_a_topic_that_is_deleted_starts_no_resolution_and_begins_an_epoch(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    lab.add_topics("others")
    await lab.join("a", regex="o.*")
    await resolved(lab)
    await lab.beat("a", 1)
    await lab.pass_time(1_000)
    lab.delete_topic("others")
    assert (await lab.beat("a", 2))[2:4] == (2, {"orders": ALL})
    await lab.beat("a", 2, owned={"orders": ALL})
    assert lab.epochs == (3, 3)


async def test_a_resolution_of_the_future_is_old_enough(consumer_lab: ConsumerLab) -> None:
    """The clock was turned back since."""
    lab = consumer_lab
    await lab.join("a", regex="o.*")
    await resolved(lab)
    lab.clock.turn_back("7d")
    lab.add_topics("others")
    await lab.beat("a", 1)
    await resolved(lab)
    assert topics_of(lab, "o.*") == {"orders", "others"}
