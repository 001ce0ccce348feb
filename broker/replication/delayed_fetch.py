"""A fetch of any number of partitions while it waits. `fetch_byte_limits.py` reads after that, and `handlers/fetch.py`
has all its steps."""

from collections.abc import Hashable, Iterable

from ..purgatory import Operation
from .fetch_partition import FetchPartition


class DelayedFetch(Operation):
    """The wait of a fetch: complete when `min_bytes` can be read, or a partition has something else to say.

    `wanted` may change while the fetch waits: the code that changes it checks `session`, which is watched, too.
    """

    __slots__ = ("_min_bytes", "_session", "_wanted")

    def __init__(self, wanted: Iterable[FetchPartition], min_bytes: int, session: Hashable = None) -> None:
        self._wanted = wanted
        self._min_bytes = min_bytes
        self._session = session

    @property
    def keys(self) -> list[Hashable]:
        keys: list[Hashable] = []
        for wanted in self._wanted:
            keys.append(wanted.topic_partition)
        if self._session is not None:
            keys.append(self._session)
        return keys

    def is_complete(self) -> bool:
        missing_bytes = self._min_bytes
        whole_first_batch = True  # as `fetch_byte_limits.read_all` has it
        for wanted in self._wanted:
            if wanted.instead_of_records() is not None:
                return True
            if wanted.reader.is_follower and wanted.must_tell_follower():
                return True
            if wanted.asked.fetch_offset < wanted.limit_offset():
                if missing_bytes <= 1:
                    return True
                missing_bytes -= wanted.bytes_to_read(missing_bytes, whole_first_batch)
                whole_first_batch = False
        return missing_bytes <= 0
