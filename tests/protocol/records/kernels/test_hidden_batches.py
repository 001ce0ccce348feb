"""Batches that a consumer does not see, compared with a search through all aborted transactions."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

from kmini.protocol.records import load_kernel
from kmini.protocol.records.layout import CONTROL, TRANSACTIONAL
from support.for_each import for_each


@pytest.fixture(params=["compiled", "interpreted"])
def columns(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("columns", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


@for_each("seed", range(10))
def test_a_batch_is_hidden_within_an_aborted_transaction_of_its_producer(columns: Any, seed: int) -> None:
    dice = random.Random(seed)
    aborted = []
    for producer_id in range(4):
        bounds = sorted(dice.sample(range(100), 2 * dice.randrange(4)))
        aborted += [(producer_id, bounds[at], bounds[at + 1]) for at in range(0, len(bounds), 2)]
    kernel = columns.RecordColumns(0, 1 << 62, 1 << 30)
    kernel.hide(False, *(array("q", (one[field] for one in aborted)) for field in range(3)))
    for producer_id in range(5):
        for offset in range(100):
            is_aborted = any(one == producer_id and first <= offset <= last for one, first, last in aborted)
            assert kernel.is_hidden(TRANSACTIONAL, producer_id, offset) == is_aborted
            assert not kernel.is_hidden(0, producer_id, offset)
            assert not kernel.is_hidden(TRANSACTIONAL | CONTROL, producer_id, offset)


@pytest.mark.parametrize("control", [True, False])
def test_control_batches_are_hidden_on_request(columns: Any, control: bool) -> None:
    kernel = columns.RecordColumns(0, 1 << 62, 1 << 30)
    kernel.hide(control, array("q"), array("q"), array("q"))
    assert kernel.is_hidden(CONTROL, 1, 5) == control


def test_lists_of_unequal_length_are_refused(columns: Any) -> None:
    kernel = columns.RecordColumns(0, 1 << 62, 1 << 30)
    with pytest.raises(ValueError, match="as many ids as offsets"):
        kernel.hide(False, array("q", [1]), array("q", [1]), array("q"))
