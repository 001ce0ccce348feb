"""Any history of a consumer group: no partition ever has two owners, as the clients see it.

As soon as the clients are left in peace, every partition has one owner, and all have even shares.

`make test` plays a fixed sample of histories, `make soak` thousands of others.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.broker.consumer_histories import TOPICS, History, Report
from support.broker.consumer_lab import ConsumerLab
from support.broker.group_histories import CLIENTS, Step, drawn_steps, of_histories, play

pytestmark = pytest.mark.deep

MOST_STEPS = 80

clients = st.integers(0, CLIENTS - 1)
subscriptions = st.sampled_from([0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 6])
STEPS = {
    "join": (6, st.tuples(clients, subscriptions)),
    "beat": (10, st.tuples(clients, st.sampled_from(Report))),
    "all": (6, st.just(())),
    "time": (8, st.tuples(st.sampled_from([500, 1_000, 1_000, 1_000, 10_000, 30_000, 45_000]))),
    "lose": (3, st.tuples(clients, st.sampled_from(Report))),
    "refuse": (2, st.tuples(clients)),
    "subscribe": (3, st.tuples(clients, subscriptions)),
    "leave": (1, st.tuples(clients)),
    "away": (2, st.tuples(clients)),
    "crash": (1, st.tuples(clients)),
    "grow": (1, st.tuples(st.integers(0, len(TOPICS) - 1))),
    "restart": (1, st.just(())),
}
"""How often each step comes, among others, and its arguments."""

steps = drawn_steps(STEPS)


@of_histories(100)
@example(
    [
        ("join", 2, 2),
        ("join", 3, 2),
        ("time", 1_000),
        ("beat", 2, Report.GIVEN_UP),
        ("lose", 2, Report.GIVEN_UP),
        ("beat", 3, Report.GIVEN_UP),
    ]
)
@example([("join", 0, 2), ("join", 1, 2), ("all",), ("away", 0), ("restart",), ("join", 0, 2), ("crash", 1)])
@given(st.lists(steps, min_size=MOST_STEPS // 2, max_size=MOST_STEPS))
def test_no_partition_has_two_owners_and_every_one_has_an_owner_in_the_end(history: list[Step]) -> None:
    play(History, ConsumerLab, history)
