"""Batches that are written over others, beside a model that has every offset by itself (KIP-932)."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kmini.broker.share_state.persister import NO_OFFSET
from kmini.broker.share_state.share_partition_state import Run, merged


@st.composite
def runs(draw: st.DrawFn) -> Run:
    first = draw(st.integers(0, 20))
    return Run(first, first + draw(st.integers(0, 6)), draw(st.sampled_from([0, 2, 4])), draw(st.integers(1, 3)))


@given(writes=st.lists(st.lists(runs(), max_size=4), max_size=6), start=st.integers(-1, 25))
def test_the_higher_count_wins_then_the_higher_state_and_equal_neighbours_are_one(
    writes: list[list[Run]], start: int
) -> None:
    found: list[Run] = []
    model: dict[int, tuple[int, int]] = {}
    for written in writes:
        found = merged(found, written, NO_OFFSET)
        for run in written:
            for offset in range(run.first, run.last + 1):
                model[offset] = max(model.get(offset, (0, 0)), (run.delivery_count, run.state))
    found = merged(found, [], start)
    expected = {offset: value for offset, value in model.items() if offset >= start}
    assert {
        offset: (run.delivery_count, run.state) for run in found for offset in range(run.first, run.last + 1)
    } == expected
    for run, following in pairwise(found):
        assert run.last < following.first
        assert run.last + 1 < following.first or run[2:] != following[2:]
