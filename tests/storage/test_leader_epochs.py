from __future__ import annotations

import pytest

from kmini.storage.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 10), (4, 20), (7, 35)])


def test_nothing_is_known_of_an_empty_log() -> None:
    epochs = LeaderEpochs()
    assert (epochs.latest_epoch, epochs.latest_entry, epochs.earliest_entry) == (-1, None, None)
    assert epochs.end_offset_for(0, 100) == (-1, -1)


@pytest.mark.parametrize(
    ("epoch", "start_offset", "changed", "entries"),
    [
        (8, 40, True, [(2, 10), (4, 20), (7, 35), (8, 40)]),
        (7, 35, False, [(2, 10), (4, 20), (7, 35)]),
        (7, 40, False, [(2, 10), (4, 20), (7, 35)]),
        (7, 30, True, [(2, 10), (4, 20), (7, 30)]),
        (8, 35, True, [(2, 10), (4, 20), (8, 35)]),
        (8, 15, True, [(2, 10), (8, 15)]),
        (5, 40, True, [(2, 10), (4, 20), (5, 40)]),
        (4, 40, True, [(2, 10), (4, 40)]),
        (1, 5, True, [(1, 5)]),
    ],
)
def test_a_new_epoch_replaces_what_contradicts_it(
    epochs: LeaderEpochs, epoch: int, start_offset: int, changed: bool, entries: list[tuple[int, int]]
) -> None:
    assert epochs.assign(epoch, start_offset) is changed
    assert list(epochs.entries) == entries


@pytest.mark.parametrize(("epoch", "start_offset"), [(-1, 0), (0, -1)])
def test_neither_epoch_nor_offset_is_negative(epochs: LeaderEpochs, epoch: int, start_offset: int) -> None:
    with pytest.raises(ValueError, match="epoch"):
        epochs.assign(epoch, start_offset)


@pytest.mark.parametrize(("end_offset", "left"), [(36, 3), (35, 2), (21, 2), (20, 1), (10, 0), (0, 0)])
def test_truncating_the_end_drops_the_epochs_that_began_there_or_later(
    epochs: LeaderEpochs, end_offset: int, left: int
) -> None:
    before = epochs.entries
    assert epochs.truncate_from_end(end_offset) is (left < 3)
    assert epochs.entries == before[:left]


@pytest.mark.parametrize(
    ("start_offset", "changed", "entries"),
    [
        (5, False, [(2, 10), (4, 20), (7, 35)]),
        (10, False, [(2, 10), (4, 20), (7, 35)]),
        (15, True, [(2, 15), (4, 20), (7, 35)]),
        (20, True, [(4, 20), (7, 35)]),
        (34, True, [(4, 34), (7, 35)]),
        (100, True, [(7, 100)]),
    ],
)
def test_truncating_the_start_keeps_the_epoch_that_holds_it(
    epochs: LeaderEpochs, start_offset: int, changed: bool, entries: list[tuple[int, int]]
) -> None:
    assert epochs.truncate_from_start(start_offset) is changed
    assert list(epochs.entries) == entries


def test_clearing_forgets_everything(epochs: LeaderEpochs) -> None:
    assert epochs.clear()
    assert epochs.entries == ()
    assert not epochs.clear()


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (7, (7, 50)),
        (8, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 35)),
        (6, (4, 35)),
    ],
)
def test_where_an_epoch_ended(epochs: LeaderEpochs, epoch: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(epoch, log_end_offset=50) == answer


def test_the_entries_handed_out_do_not_change(epochs: LeaderEpochs) -> None:
    snapshot = epochs.entries
    epochs.assign(9, 50)
    epochs.truncate_from_start(30)
    assert [tuple(entry) for entry in snapshot] == [(2, 10), (4, 20), (7, 35)]


def test_entries_that_contradict_each_other_are_not_kept() -> None:
    assert [tuple(entry) for entry in LeaderEpochs([(1, 0), (2, 20), (3, 10)]).entries] == [(1, 0), (3, 10)]
