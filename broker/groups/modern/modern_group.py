"""A group that the coordinator assigns, as data: exactly what its records say, and indexes of it.

This module neither waits nor writes nor reads a clock. Only changes (`changes.py`) change a group. `fencing.py`
refuses commits and fetches of offsets by members whose epoch does not count.

| state       | when                                                                                    |
|-------------|-----------------------------------------------------------------------------------------|
| Empty       | it has no members                                                                       |
| NotReady    | of a streams group: not all topics of its topology exist, or they do not fit            |
| Assigning   | the target assignment is older than the group epoch                                     |
| Reconciling | a member does not have its target yet                                                   |
| Stable      | every member has its target                                                             |
| Dead        | its tombstones are being replicated                                                     |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ..group import Group
from .fencing import check_commit, check_fetch

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..group import Committer, Place

FIRST_EPOCH = 1
"""Group epoch and assignment epoch of a group without records: the first member gets epoch 2, as in Apache Kafka."""


class Member(Protocol):
    """What every kind of member has told of itself."""

    @property
    def member_id(self) -> str: ...

    @property
    def client_id(self) -> str: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...


class Assigned(Protocol):
    """What a member of any kind has been assigned."""

    @property
    def epoch(self) -> int: ...

    @property
    def state(self) -> Enum: ...


M = TypeVar("M", bound=Member)
A = TypeVar("A", bound=Assigned)
T = TypeVar("T")

NO_EPOCH = -1
"""The assignment epoch of a group without a target assignment."""


class ModernGroup(Group, Generic[M, A, T]):
    """A group of members that are assigned their share by heartbeats. A is what a member has, T what it is to have."""

    states: ClassVar[type[Enum]]
    """The states of such a group, whose values are the names that clients are given."""
    settled: ClassVar[Enum]
    """The state of a member that has its target of its epoch."""
    unrevoked: ClassVar[Enum]
    """The state of a member that is asked to give up something."""
    new_member: ClassVar[Any]
    """What a member has that has just joined."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        """Raised by one with each change of subscriptions or of topics."""
        self.metadata_hash = 0
        """The hash of the topics that the members subscribe to, of that epoch."""
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch that the target assignment belongs to."""
        self.assigned_at_ms = 0
        """When the target assignment was computed, in log time; 0 if that is not known."""
        self.memberships: dict[str, M] = {}
        self.currents: dict[str, A] = {}
        """What members have, by member id."""
        self.targets: dict[str, T] = {}
        """What members are to have, by member id."""
        self.metadata_version: int | None = None
        """The version of the cluster's metadata at which the metadata hash was compared last; None since loading."""
        self._is_removed = False
        self._held_back: list[ModernGroup[M, A, T]] = []
        """The group before each change that is not replicated, for readers; the first one is shown."""

    # --- state

    @property
    def state(self) -> Enum:
        return self.states[self._state()]

    def _state(self) -> str:
        if self._is_removed:
            return "DEAD"
        if not self.memberships:
            return "EMPTY"
        if not self.is_ready:
            return "NOT_READY"
        if self.epoch > self.assignment_epoch:
            return "ASSIGNING"
        return "STABLE" if all(map(self.is_reconciled, self.memberships)) else "RECONCILING"

    @property
    def is_ready(self) -> bool:
        """Whether members can be assigned anything."""
        return True

    def is_reconciled(self, member_id: str) -> bool:
        """Whether a member has its target of the assignment epoch."""
        current = self.current(member_id)
        return current.state is self.settled and current.epoch == self.assignment_epoch

    # --- members

    def current(self, member_id: str) -> A:
        """What a member has been assigned."""
        current: A = self.currents.get(member_id, self.new_member)
        return current

    def epoch_of(self, member_id: str) -> int:
        """The epoch of a member."""
        return self.current(member_id).epoch

    def speaks_classic(self, member_id: str) -> bool:
        """Whether a member speaks the classic protocol."""
        return False

    @abstractmethod
    def assigned_at(self, member_id: str, place: Place) -> int | None:
        """The epoch at which a member was assigned a partition; None if it does not have it. One that it is asked to
        give up counts until it has."""

    @abstractmethod
    def topics_of(self, members: Iterable[M]) -> set[str]:
        """The topics that these members read."""

    @property
    def members(self) -> Mapping[str, M]:
        return self.memberships

    @property
    def is_removed(self) -> bool:
        return self._is_removed

    def mark_removed(self, is_removed: bool = True) -> None:
        """Make the group Dead, while its tombstones are replicated; or alive again, if they could not be written."""
        self._is_removed = is_removed

    @property
    def is_empty(self) -> bool:
        return not self.memberships and not self._is_removed

    @property
    def is_stable(self) -> bool:
        return self._state() == "STABLE"

    @property
    def is_alive(self) -> bool:
        return bool(self.memberships)

    @property
    def generation(self) -> int:
        return self.epoch

    @property
    def state_name(self) -> str:
        return str(self.state.value)

    # --- offsets

    @property
    def keeps_all_offsets(self) -> bool:
        return False

    @property
    def empty_since_ms(self) -> int | None:
        return None  # its offsets expire by their commits, as in Kafka

    def check_delete_offsets(self) -> None:
        """As in Kafka: members are no obstacle, only their subscriptions are."""

    def check_commit(self, committer: Committer, places: Callable[[], Iterable[Place]]) -> None:
        check_commit(self, committer, places)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        check_fetch(self, member_id, epoch)

    # --- changes

    def put_target(self, member_id: str, target: T | None) -> None:
        """Note what a member is to have; None removes it."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def put_assignment_epoch(self, epoch: int | None, assigned_at_ms: int) -> None:
        """Note the group epoch that the target assignment belongs to; None if there is none any more."""
        self.assignment_epoch = NO_EPOCH if epoch is None else epoch
        self.assigned_at_ms = assigned_at_ms

    # --- the group up to the high watermark

    @property
    def shown(self) -> Self:
        """The group as readers are shown it: up to the high watermark."""
        return self._held_back[0] if self._held_back else self  # type: ignore[return-value]  # copies are of its kind

    @property
    def shown_state(self) -> Enum:
        return self.states["EMPTY"] if self._is_removed else self.shown.state

    @property
    def is_replicated(self) -> bool:
        """Whether readers are shown everything."""
        return not self._held_back

    def hold_back(self) -> None:
        """Keep showing readers the present group through the next change, until `show_next`."""
        copy = self._copied()
        copy.epoch, copy.assignment_epoch = self.epoch, self.assignment_epoch
        copy.memberships = dict(self.memberships)
        copy.currents, copy.targets = dict(self.currents), dict(self.targets)
        self._held_back.append(copy)

    @abstractmethod
    def _copied(self) -> ModernGroup[M, A, T]:
        """A group with copies of what readers are shown, but for what all kinds have."""

    def show_next(self) -> None:
        """Show readers the next change."""
        if self._held_back:
            del self._held_back[0]
