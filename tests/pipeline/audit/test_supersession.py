"""The reduce step against a model that looks at one record after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.pipeline.audit.audit_plan import LogContext, Scope
from kmini.pipeline.audit.buckets import Buckets
from kmini.pipeline.audit.supersession import (
    FACTS,
    HAS_NO_VALUE,
    IS_APART,
    IS_EXPIRED,
    IS_TOMBSTONE,
    combine,
    reduce,
)
from kmini.pipeline.audit.tally import DELETED, SUPERSEDED, Tally
from kmini.pipeline.audit.topic_policy import TopicPolicy

NOW_MS, BOUND_MS, GRACE_MS, END_OFFSET = 1_000_000, 200_000, 50_000, 30
SCOPE = Scope(NOW_MS, GRACE_MS)
CONTEXT = LogContext(TopicPolicy(is_compacted=True, max_compaction_lag_ms=BOUND_MS), True, end_offset=END_OFFSET)


class Fact(NamedTuple):
    key: int
    offset: int
    timestamp: int
    size: int
    kind: int


def batch_of(facts: list[Fact]) -> pa.RecordBatch:
    columns = [
        np.array([fact.key % 7 for fact in facts], np.uint64),  # some keys differ in the other half alone
        np.array([fact.key for fact in facts], np.uint64),
        np.array([fact.offset for fact in facts], np.int64),
        np.array([fact.timestamp for fact in facts], np.int64),
        np.array([fact.size for fact in facts], np.int32),
        np.array([fact.offset // 10 for fact in facts], np.int32),
        np.array([fact.kind for fact in facts], np.uint8),
    ]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=FACTS)


def model(facts: list[Fact]) -> dict[str, object]:
    """The dead values, by comparing each record with all others."""
    live = [fact for fact in facts if not fact.kind & IS_APART]
    dead: list[tuple[Fact, Fact]] = []
    orphans, freeable = [], []
    for fact in facts:
        later = min(
            (one for one in live if one.key == fact.key and one.offset > fact.offset), default=None, key=_offset
        )
        is_live = not fact.kind & IS_APART
        if later is not None:
            dead.append((fact, later))
            if is_live and later.offset < END_OFFSET:
                freeable.append(fact)
        elif is_live and fact.kind & IS_EXPIRED:
            freeable.append(fact)
        elif not is_live and not fact.kind & HAS_NO_VALUE:
            copies = [one for one in live if (one.key, one.offset) == (fact.key, fact.offset)]
            orphans += [] if copies else [fact]
    values = [(fact, later) for fact, later in dead if not fact.kind & HAS_NO_VALUE]
    late = [(fact, later) for fact, later in values if NOW_MS - later.timestamp > BOUND_MS + GRACE_MS]
    return {
        "dead": (len(dead), sum(fact.size for fact, _ in dead)),
        "freeable": (len(freeable), sum(fact.size for fact in freeable)),
        "oldest": min(((later.timestamp, fact.offset) for fact, later in values), default=None),
        SUPERSEDED: sum(not later.kind & IS_TOMBSTONE for _, later in late),
        DELETED: sum(bool(later.kind & IS_TOMBSTONE) for _, later in late),
        "orphans": len({(fact.key, fact.offset) for fact in orphans}),
    }


def _offset(fact: Fact) -> int:
    return fact.offset


def told(tally: Tally) -> dict[str, object]:
    oldest = tally.oldest_dead
    return {
        "dead": (tally.dead_records, tally.dead_bytes),
        "freeable": (tally.freeable_records, tally.freeable_bytes),
        "oldest": None if oldest is None else (oldest.since_ms, oldest.offset),
        SUPERSEDED: tally.late[SUPERSEDED],
        DELETED: tally.late[DELETED],
        "orphans": sum(tally.orphans.values()),
    }


KEYS = st.integers(0, 12)
KINDS = st.sampled_from([0, 0, 0, IS_TOMBSTONE, HAS_NO_VALUE | IS_TOMBSTONE, HAS_NO_VALUE | IS_TOMBSTONE | IS_EXPIRED])


@st.composite
def logs(draw: st.DrawFn) -> list[Fact]:
    offsets = sorted(draw(st.sets(st.integers(0, 60), max_size=40)))
    return [
        Fact(
            draw(st.integers(0, 12)), offset, draw(st.integers(0, NOW_MS + 1000)), draw(st.integers(7, 99)), draw(KINDS)
        )
        for offset in offsets
    ]


@given(log=logs(), cuts=st.lists(st.integers(0, 40), max_size=4), buckets=st.integers(1, 4), spill=st.booleans())
@settings(max_examples=80, deadline=None)
def test_parts_buckets_and_spilling_change_nothing(log: list[Fact], cuts: list[int], buckets: int, spill: bool) -> None:
    ends = [*sorted(cut for cut in cuts if cut < len(log)), len(log)]
    whole, start = Tally(), 0
    with Buckets(buckets, spill_bytes=0 if spill else 1 << 30) as held:
        for end in ends:
            if start < end:
                held.add(combine(batch_of(log[start:end]), CONTEXT, SCOPE, whole))
            start = end
        assert held.has_spilled == (spill and buckets > 1 and bool(log))
        for table in held.tables():
            whole.add(reduce(table, CONTEXT, SCOPE))
    assert told(whole) == model(log)


@given(log=logs(), apart=logs(), copied=st.sets(st.integers(0, 60)))
@settings(max_examples=80, deadline=None)
def test_files_that_are_no_part_of_the_log_supersede_nothing(
    log: list[Fact], apart: list[Fact], copied: set[int]
) -> None:
    taken = {fact.offset for fact in log}
    beside = [fact for fact in apart if fact.offset not in taken]
    beside += [fact for fact in log if fact.offset in copied]
    facts = [*log, *(fact._replace(kind=(fact.kind | IS_APART) & ~IS_EXPIRED) for fact in beside)]
    tally = reduce(pa.Table.from_batches([batch_of(facts)]), CONTEXT, SCOPE)
    assert told(tally) == model(facts)


@given(log=logs())
@settings(max_examples=60, deadline=None)
def test_a_key_leaves_two_facts_of_a_part_at_most(log: list[Fact]) -> None:
    left = combine(batch_of(log), CONTEXT, SCOPE, Tally()) if log else batch_of([])
    keys = [fact.key for fact in log]
    expected = sum(min(keys.count(key), 2) for key in set(keys))
    assert left.num_rows == expected
    offsets = left.column("offset").to_pylist()
    assert offsets == sorted(offsets)


@given(log=logs())
@settings(max_examples=60, deadline=None)
def test_the_order_in_which_facts_come_does_not_matter(log: list[Fact]) -> None:
    backwards = reduce(pa.Table.from_batches([batch_of(log[::-1])]), CONTEXT, SCOPE)
    assert told(backwards) == told(reduce(pa.Table.from_batches([batch_of(log)]), CONTEXT, SCOPE))


@given(log=logs(), twice=st.sets(st.integers(0, 60)))
@settings(max_examples=60, deadline=None)
def test_a_record_that_was_read_twice_counts_once(log: list[Fact], twice: set[int]) -> None:
    """While segments are swapped a record may be met in an old file and in the new one."""
    facts = sorted([*log, *(fact for fact in log if fact.offset in twice)], key=_offset)
    tally = reduce(pa.Table.from_batches([batch_of(facts)]), CONTEXT, SCOPE)
    expected = model(log)
    assert {**told(tally), "freeable": None} == {**expected, "freeable": None}


def test_without_a_bound_nothing_is_late() -> None:
    log = [Fact(1, 0, 0, 10, 0), Fact(1, 1, 1, 10, 0)]
    context = CONTEXT._replace(policy=TopicPolicy(is_compacted=True))
    tally = reduce(pa.Table.from_batches([batch_of(log)]), context, SCOPE)
    assert (tally.dead_records, sum(tally.late.values())) == (1, 0)
    assert tally.oldest_dead is not None


@pytest.mark.parametrize(("age_ms", "count"), [(BOUND_MS + GRACE_MS, 0), (BOUND_MS + GRACE_MS + 1, 1)])
def test_a_bound_is_exceeded_a_millisecond_after_it(age_ms: int, count: int) -> None:
    log = [Fact(1, 0, 0, 10, 0), Fact(1, 1, NOW_MS - age_ms, 10, 0)]
    tally = reduce(pa.Table.from_batches([batch_of(log)]), CONTEXT, SCOPE)
    assert tally.late[SUPERSEDED] == count
