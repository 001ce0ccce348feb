"""The decision about one reader's partitions, asked when each is read: a fetch session knows partitions that its
request does not name."""

from __future__ import annotations

from .authorizer import Access
from .resources import AclOperation, ResourceType


class FetchAccess:
    """The topics that a reader may read. Equal for equal rights, so that a session notices when they change."""

    __slots__ = ("_access", "_generation", "_is_follower")

    def __init__(self, access: Access, *, is_follower: bool) -> None:
        self._access = access
        self._generation = access.authorizer.acls.generation
        self._is_follower = is_follower

    def may_read(self, topic: str) -> bool:
        """Whether the reader may read a topic. A reader that fetches as a replica must be a broker, even where its user
        may read the topic (CVE-2018-1288)."""
        if self._is_follower:
            return self._access.may_on_cluster(AclOperation.CLUSTER_ACTION)
        return self._access.may(AclOperation.READ, ResourceType.TOPIC, topic)

    def _identity(self) -> tuple[object, ...]:
        return (self._access.principal, self._access.host, self._generation, self._is_follower)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FetchAccess) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())
