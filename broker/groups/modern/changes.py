"""What changes a group: each change is one record, and its effect on the group in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ...coordinators.coordinator_topic import KeyValue

G = TypeVar("G", contravariant=True)


class Change(Protocol[G]):
    """A change of a group of kind G."""

    def record(self, group_id: str) -> KeyValue:
        """Key and value of the record; a change without a value is a tombstone."""

    def apply(self, group: G) -> None:
        """Change the group in memory."""
