"""The states of a transactional id, and what each request does in each of them: everything that depends on the state,
as tables.

An id goes round, one transaction after the other. What is decided is stored before anything follows from it: first that
the transaction will be committed or aborted (Prepare…), from when on nothing can change that; then its markers are
written to every partition that takes part; then that this is done (Complete…).

                       partitions added           commit                  all markers written
    Empty, Complete… ------------------> Ongoing --------> PrepareCommit --------------------> CompleteCommit
                                          ^   |
                                          +---+  abort
                            partitions added  +----------> PrepareAbort ---------------------> CompleteAbort
                                              |  ^
               another producer, or time-out  v  | epoch raised
                                       PrepareEpochFence

InitProducerId raises the epoch, which fences whoever used the id before; with an open transaction it aborts that first.
PrepareEpochFence and Dead, which an expired id is while it is being removed, are on their way only, and never stored.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto

from ...protocol.errors import ConcurrentTransactions, InvalidTxnState, KafkaError, ProducerFenced


class TransactionState(IntEnum):
    """A state, by the number that it has in the log."""

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
        """What clients are told."""
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
"""What requests find; see above for the other two."""

PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    EMPTY: frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    ONGOING: frozenset({ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: frozenset({ONGOING, PREPARE_EPOCH_FENCE}),
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
"""From which states a state may be reached."""

RESTING = PREVIOUS[DEAD]
"""Between transactions: only then may an id expire."""

COMPLETED = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}
"""What a decided transaction becomes."""


# --- InitProducerId


class Claim(Enum):
    """Who sends an InitProducerId, by the producer id and the epoch that they give (KIP-360)."""

    NEWCOMER = auto()
    """None: a producer that begins. Whoever had the id is fenced."""
    OWNER = auto()
    """The ones in force: it goes on after an error. Also whoever finds an id that has no epoch yet."""
    RETURNING = auto()
    """The ones before: the answer that told the new ones was lost."""
    FENCED = auto()
    """The right producer id, and an epoch that is over."""
    STRANGER = auto()
    """Another producer id."""


class Init(Enum):
    """What an InitProducerId does."""

    RAISE_EPOCH = auto()
    """Raise the epoch by one; where that is exhausted, give a new producer id and epoch 0."""
    REPEAT = auto()
    """Tell what is in force."""
    ABORT = auto()
    """Raise the epoch and abort what is open: CONCURRENT_TRANSACTIONS, and the next attempt finds it done."""


_BUSY = ConcurrentTransactions

# fmt: off
_INIT: dict[Claim, tuple[Init | type[KafkaError], ...]] = {
    #                 Empty, Complete…  Ongoing         Prepare…
    Claim.NEWCOMER:  (Init.RAISE_EPOCH, Init.ABORT,     _BUSY),
    Claim.OWNER:     (Init.RAISE_EPOCH, Init.ABORT,     _BUSY),
    Claim.RETURNING: (Init.REPEAT,      Init.ABORT,     _BUSY),
    Claim.FENCED:    (ProducerFenced,   Init.ABORT,     _BUSY),
    Claim.STRANGER:  (ProducerFenced,   ProducerFenced, ProducerFenced),
}
_COLUMN = {
    EMPTY: 0, COMPLETE_COMMIT: 0, COMPLETE_ABORT: 0,
    ONGOING: 1,
    PREPARE_COMMIT: 2, PREPARE_ABORT: 2,
}
# fmt: on

INIT: dict[tuple[Claim, TransactionState], Init | type[KafkaError]] = {
    (claim, state): actions[_COLUMN[state]] for claim, actions in _INIT.items() for state in STORED
}
"""What an InitProducerId does, or how it is refused."""


# --- the requests within a transaction; who sends them has been checked

ADD: dict[TransactionState, type[KafkaError] | None] = {
    EMPTY: None,
    ONGOING: None,
    PREPARE_COMMIT: _BUSY,
    PREPARE_ABORT: _BUSY,
    COMPLETE_COMMIT: None,
    COMPLETE_ABORT: None,
}
"""Whether partitions may join the transaction, which begins with the first of them."""

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
"""What EndTxn, to commit or not, makes of a transaction, or how it is refused. None: it has ended so already."""
