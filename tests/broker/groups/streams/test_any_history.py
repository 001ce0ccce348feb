"""Any history of a streams group: no task is active in two processes, and none twice in one, as the clients see it.

As soon as the clients are left in peace, every task is active once and has its standbys, and all members have even
shares. `make test` plays a fixed sample of histories, `make soak` thousands of others.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.broker.group_histories import CLIENTS, Step, drawn_steps, of_histories, play
from support.broker.streams_histories import Report, StreamsHistory
from support.broker.streams_lab import StreamsLab

pytestmark = pytest.mark.deep

MOST_STEPS = 60

clients = st.integers(0, CLIENTS - 1)
reports = st.sampled_from(Report)
STEPS = {
    "join": (6, st.tuples(clients)),
    "beat": (10, st.tuples(clients, reports)),
    "all": (6, st.just(())),
    "time": (8, st.tuples(st.sampled_from([500, 1_000, 1_000, 3_000, 10_000, 30_000, 45_000]))),
    "lose": (3, st.tuples(clients, reports)),
    "refuse": (2, st.tuples(clients)),
    "leave": (1, st.tuples(clients)),
    "crash": (1, st.tuples(clients)),
    "standbys": (1, st.tuples(st.integers(0, 2))),
    "restart": (1, st.just(())),
}
"""How often each step comes, among others, and its arguments."""

steps = drawn_steps(STEPS)


@of_histories(40)
@given(st.lists(steps, min_size=MOST_STEPS // 2, max_size=MOST_STEPS))
def test_no_task_is_active_in_two_processes_and_every_one_is_active_in_the_end(history: list[Step]) -> None:
    play(StreamsHistory, StreamsLab, history)
