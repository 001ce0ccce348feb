"""Share sessions (KIP-932): a member of a share group names the partitions that it reads once.

| epoch | ShareFetch                                        | ShareAcknowledge            |
|-------|---------------------------------------------------|-----------------------------|
| 0     | a new session; one that the member has goes       | INVALID_SHARE_SESSION_EPOCH |
| -1    | acknowledges, then ends the session               | likewise                    |
| other | the next one of the session, from 1 on            | likewise                    |

A session ends with its connection. What its member has acquired is released then.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from ..replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, MAX_PARTITIONS, next_epoch
from ..share_state.persister import SharePartitionKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from .share_partition_manager import SharePartitionManager


class EndingConnection(Protocol):
    """A connection that tells when it has ended."""

    def when_lost(self, callback: Callable[[], None]) -> None: ...


class MemberKey(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


class ShareSession:
    """What a member reads from this broker."""

    def __init__(self, key: MemberKey, connection: EndingConnection) -> None:
        self.key = key
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)
        """That of the next request."""
        self.partitions: dict[SharePartitionKey, bool] = {}
        """What it reads, in order, and whether an answer has named it."""

    @property
    def rotated(self) -> list[SharePartitionKey]:
        """The partitions in an order that changes with the epoch, so that each is the first one at times."""
        keys = [*self.partitions]
        first = self.epoch % len(keys) if keys else 0
        return keys[first:] + keys[:first]


class ShareSessions:
    """The share sessions of one broker. Belongs to the broker's loop."""

    def __init__(self, share_partitions: SharePartitionManager) -> None:
        self._share_partitions = share_partitions
        self._by_key: dict[MemberKey, ShareSession] = {}
        self._partitions = 0
        """Those of all sessions."""
        self._of_connection: dict[EndingConnection, dict[MemberKey, ShareSession]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def keys_of(self, group_id: str, member_id: str) -> tuple[SharePartitionKey, ...]:
        """The partitions that the session of a member reads; none if it has none."""
        session = self._by_key.get(MemberKey(group_id, member_id))
        return () if session is None else tuple(session.partitions)

    def begin(self, key: MemberKey, connection: EndingConnection, most: int) -> ShareSession:
        """Begin a session, in place of one that the member has: what it has acquired stays so. Raises
        ShareSessionLimitReached if there are `most` sessions."""
        former = self._by_key.get(key)
        if former is not None:
            self._forget(former)
        elif len(self._by_key) >= most:
            raise ShareSessionLimitReached(f"there are {most} share sessions, and there is room for no more")
        session = self._by_key[key] = ShareSession(key, connection)
        if connection not in self._of_connection:
            self._of_connection[connection] = {}
            connection.when_lost(partial(self._lost, connection))
        self._of_connection[connection][key] = session
        return session

    def accept(self, key: MemberKey, epoch: int) -> ShareSession:
        """The session of a request that goes on with it, or ends it. Raises ShareSessionNotFound,
        InvalidShareSessionEpoch."""
        session = self._by_key.get(key)
        if session is None:
            raise ShareSessionNotFound(f"{key.member_id} has no share session here")
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise InvalidShareSessionEpoch(f"the epoch of the share session is {session.epoch}, not {epoch}")
            session.epoch = next_epoch(epoch)
        return session

    def change(
        self, session: ShareSession, added: Iterable[SharePartitionKey], forgotten: Iterable[SharePartitionKey]
    ) -> None:
        """Let a session read other partitions. Raises ShareSessionLimitReached if all sessions would have more than
        MAX_PARTITIONS."""
        before = len(session.partitions)
        new = [key for key in added if key not in session.partitions]
        if self._partitions + len(new) > MAX_PARTITIONS:
            raise ShareSessionLimitReached(f"all share sessions together have at most {MAX_PARTITIONS} partitions")
        session.partitions.update(dict.fromkeys(new, False))
        for key in forgotten:
            session.partitions.pop(key, None)
        self._partitions += len(session.partitions) - before

    def end(self, session: ShareSession) -> None:
        """End a session, and release what its member has acquired."""
        if self._by_key.get(session.key) is not session:
            return
        self._forget(session)
        share_partitions = self._share_partitions
        group_id, member_id = session.key
        for key in session.partitions:
            led = share_partitions.get(key)
            if led is not None:
                share_partitions.writes.start(led.release(member_id))
        if not any(key.group_id == group_id for key in self._by_key):
            share_partitions.drop_group(group_id)

    def _forget(self, session: ShareSession) -> None:
        del self._by_key[session.key]
        self._partitions -= len(session.partitions)
        self._of_connection.get(session.connection, {}).pop(session.key, None)

    def _lost(self, connection: EndingConnection) -> None:
        for session in [*self._of_connection.pop(connection, {}).values()]:
            self.end(session)
