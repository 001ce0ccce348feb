"""The states of a transactional id, and the effect of requests in each state, as tables.

An id has one transaction after the other. Each step is stored before the next: first the decision to commit or abort
(Prepare…), which is final; then markers are written to every partition of the transaction; then the end (Complete…).

                       partitions added           commit                  all markers written
    Empty, Complete… ------------------> Ongoing --------> PrepareCommit --------------------> CompleteCommit
                                          ^   |
                                          +---+  abort
                            partitions added  +----------> PrepareAbort ---------------------> CompleteAbort
                                              another producer, or a time-out: with the epoch raised

With the second version of transactions (KIP-890) every decision raises the epoch, and a producer may abort where no
transaction is open, too, to have its epoch raised: Empty and Complete… then lead to PrepareAbort.

InitProducerId raises the epoch, which fences the previous producer of the id; an open transaction is aborted first
(producer_epochs.py). Dead, an expired id that is being removed, is transient and never stored. No id is in Kafka's
PrepareEpochFence, which is never stored either: the epoch is raised in the turn in which the abort begins.
"""

from __future__ import annotations

from enum import IntEnum

from ...protocol.errors import ConcurrentTransactions, InvalidTxnState, KafkaError


class TransactionState(IntEnum):
    """A state, with its number in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name that clients are given."""
        return "".join(word.capitalize() for word in self.name.split("_"))


(
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARE_ABORT,
    COMPLETE_COMMIT,
    COMPLETE_ABORT,
    DEAD,
    PREPARE_EPOCH_FENCE,
) = TransactionState

STORED = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)
"""The states that are stored; the others are transient."""

PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    EMPTY: frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    ONGOING: frozenset({ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: frozenset({ONGOING, PREPARE_EPOCH_FENCE, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
"""By state, the states from which it may be reached."""

RESTING = PREVIOUS[DEAD]
"""The states between transactions, in which an id may expire."""

COMPLETED = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}
"""By decision, the state once all markers are written."""


_BUSY = ConcurrentTransactions

# --- requests within a transaction, after the check of the producer

ADD: dict[TransactionState, type[KafkaError] | None] = {
    EMPTY: None,
    ONGOING: None,
    PREPARE_COMMIT: _BUSY,
    PREPARE_ABORT: _BUSY,
    COMPLETE_COMMIT: None,
    COMPLETE_ABORT: None,
}
"""By state, the error that refuses partitions. The first partition begins a transaction."""

_WRONG = InvalidTxnState

# fmt: off
_END: dict[TransactionState, tuple[TransactionState | type[KafkaError] | None, ...]] = {
    #                commit          abort
    EMPTY:           (_WRONG,         _WRONG),
    ONGOING:         (PREPARE_COMMIT, PREPARE_ABORT),
    PREPARE_COMMIT:  (_BUSY,          _WRONG),
    PREPARE_ABORT:   (_WRONG,         _BUSY),
    COMPLETE_COMMIT: (None,           _WRONG),
    COMPLETE_ABORT:  (_WRONG,         None),
}
# fmt: on

END: dict[tuple[TransactionState, bool], TransactionState | type[KafkaError] | None] = {
    (state, is_commit): outcomes[0 if is_commit else 1]
    for state, outcomes in _END.items()
    for is_commit in (True, False)
}
"""By state and `is_commit` of EndTxn before version 5, the next state, or the error that refuses it. None: it has ended
so already."""

# fmt: off
_END_RAISING_EPOCH: dict[TransactionState, tuple[TransactionState | type[KafkaError] | None, ...]] = {
    #                commit          abort          commit, repeated  abort, repeated
    EMPTY:           (_WRONG,         PREPARE_ABORT, _WRONG,           _WRONG),
    ONGOING:         (PREPARE_COMMIT, PREPARE_ABORT, _WRONG,           _WRONG),
    PREPARE_COMMIT:  (_BUSY,          _WRONG,        _BUSY,            _WRONG),
    PREPARE_ABORT:   (_WRONG,         _BUSY,         _WRONG,           _BUSY),
    COMPLETE_COMMIT: (_WRONG,         PREPARE_ABORT, None,             _WRONG),
    COMPLETE_ABORT:  (_WRONG,         PREPARE_ABORT, _WRONG,           None),
}
# fmt: on

END_RAISING_EPOCH: dict[tuple[TransactionState, bool, bool], TransactionState | type[KafkaError] | None] = {
    (state, is_commit, is_repeated): outcomes[(0 if is_commit else 1) + (2 if is_repeated else 0)]
    for state, outcomes in _END_RAISING_EPOCH.items()
    for is_commit in (True, False)
    for is_repeated in (True, False)
}
"""By state, `is_commit` and whether the epoch is the one before the last end (`producer_epochs.repeats_end`), what END
has, for EndTxn from version 5 on."""
