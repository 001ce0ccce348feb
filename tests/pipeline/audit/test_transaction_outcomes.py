"""How transactions ended, read off batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.pipeline.audit.transaction_outcomes import ABORTED, BEGUN, COMMITTED, Event, EventsOfFile, outcomes_of
from kmini.storage.config_key import MAX_LONG


class Step(NamedTuple):
    """A batch of a producer: data, or a marker."""

    kind: int
    producer_id: int


steps = st.lists(st.builds(Step, st.sampled_from([BEGUN, BEGUN, ABORTED, COMMITTED]), st.integers(1, 3)), max_size=30)


@given(log=steps, cuts=st.lists(st.integers(0, 30), max_size=3))
@settings(max_examples=120, deadline=None)
def test_the_next_marker_of_its_producer_decides_about_a_record(log: list[Step], cuts: list[int]) -> None:
    events: list[Event] = []
    ends = [*sorted(cut for cut in cuts if cut < len(log)), len(log)]
    start = 0
    for end in ends:
        file = EventsOfFile()
        for offset in range(start, end):
            kind, producer_id = log[offset]
            if kind == BEGUN:
                file.data(producer_id, offset, offset)
            else:
                file.marker(kind, producer_id, offset, 1000 + offset)
        events += file.events()
        start = end
    outcomes = outcomes_of(events)

    data = [offset for offset, step in enumerate(log) if step.kind == BEGUN]
    died, is_open = outcomes.of(np.array([log[offset].producer_id for offset in data]), np.array(data, np.int64))
    for number, offset in enumerate(data):
        markers = (
            later
            for later in range(offset + 1, len(log))
            if log[later].producer_id == log[offset].producer_id and log[later].kind != BEGUN
        )
        marker = next(markers, None)
        is_aborted = marker is not None and log[marker].kind == ABORTED
        assert died[number] == (1000 + marker if marker is not None and is_aborted else MAX_LONG)
        assert is_open[number] == (marker is None)
    undecided = [offset for offset, waits in zip(data, is_open, strict=True) if waits]
    assert outcomes.first_open_offset == min(undecided, default=MAX_LONG)


def test_of_what_is_committed_in_one_file_the_first_end_alone_is_left() -> None:
    file = EventsOfFile()
    for offset in range(0, 100, 2):
        file.data(7, offset, 0)
        file.marker(COMMITTED, 7, offset + 1, 0)
    assert file.events() == (Event(COMMITTED, 7, 1, 0),)
