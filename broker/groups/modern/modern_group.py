"""A group that the coordinator assigns, as data: exactly what its records say, and indexes of it.

This module neither waits nor writes nor reads a clock. Only changes (`changes.py`) change a group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from ..group import Group

if TYPE_CHECKING:
    from typing_extensions import Self

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


M = TypeVar("M", bound=Member)


class ModernGroup(Group, Generic[M]):
    """A group of members that are assigned their share by heartbeats."""

    empty_state: ClassVar[Enum]
    stable_state: ClassVar[Enum]

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
        self.metadata_version: int | None = None
        """The version of the cluster's metadata at which the metadata hash was compared last; None since loading."""
        self._is_removed = False
        self._held_back: list[ModernGroup[M]] = []
        """The group before each change that is not replicated, for readers; the first one is shown."""

    # --- state

    @property
    @abstractmethod
    def state(self) -> Enum:
        """The state, whose value is the name that clients are given."""

    @abstractmethod
    def epoch_of(self, member_id: str) -> int:
        """The epoch of a member."""

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
        return self.state is self.stable_state

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

    # --- the group up to the high watermark

    @property
    def shown(self) -> Self:
        """The group as readers are shown it: up to the high watermark."""
        return self._held_back[0] if self._held_back else self  # type: ignore[return-value]  # copies are of its kind

    @property
    def shown_state(self) -> Enum:
        return self.empty_state if self._is_removed else self.shown.state

    @property
    def is_replicated(self) -> bool:
        """Whether readers are shown everything."""
        return not self._held_back

    def hold_back(self) -> None:
        """Keep showing readers the present group through the next change, until `show_next`."""
        copy = self._copied()
        copy.epoch, copy.assignment_epoch = self.epoch, self.assignment_epoch
        copy.memberships = dict(self.memberships)
        self._held_back.append(copy)

    @abstractmethod
    def _copied(self) -> ModernGroup[M]:
        """A group with copies of what readers are shown, but for what all kinds have."""

    def show_next(self) -> None:
        """Show readers the next change."""
        if self._held_back:
            del self._held_back[0]
