"""The records of a topic over HTTP: a page of them, and where the next one begins.

A page has at most `limit` records, and ends after `PAGE_BYTES` of keys and values. The answer's header `Link` has the
address of the next page (RFC 8288), with `cursor`: the partition and the offset at which it begins, and the key in
Base64 if it is no text, which a query cannot have.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from kmini.control.json_types import WrongValue, to_json
from kmini.testkit.arrivals import Reading
from kmini.testkit.contents import PAGE_RECORDS, Isolation, Position, Record, RecordPage
from kmini.testkit.handle import waits_for_clients
from kmini.testkit.operations import Operations
from kmini.testkit.record_selection import Mark
from kmini.testkit.topic_handle import BEGINNING, TopicOperations

SHOWN = 11
"""Records that a wait in vain keeps: those that its message lists, and the one that says that there are more."""

NOT_REPEATED = ("count", "timeout_ms", "cursor", "topic")
"""Arguments that the address of the next page does not have from the request."""


class TopicPages:
    """The records of a topic, in pages. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: Operations, topic: str) -> None:
        self._topic = TopicOperations(operations, topic)
        self._operations = operations

    async def records(
        self,
        partition: int | None = None,
        *,
        key: bytes | None = None,
        since: int | Mark | None = None,
        isolation: Isolation = "committed",
        limit: int = PAGE_RECORDS,
        cursor: str | None = None,
    ) -> list[Record]:
        """The records, in the order of partition and offset: of one partition, with this key, since an offset or a
        mark.

        At most `limit` are in an answer, and fewer where they are large; its header `Link` has the address of the next
        ones, with `cursor`. `latest` has the last records. Raises LeaderNotAvailable, and ValueError for the mark of
        another topic.
        """
        begin, coded_key = _position(cursor)
        selection = self._topic.selection(partition, coded_key or key, [None], since, isolation)
        return await self._topic.page(selection, _checked(limit), begin=begin)

    @waits_for_clients
    async def wait_for(
        self,
        count: int = 1,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        since: int | Mark | None = None,
        timeout_ms: int = 10_000,
        isolation: Isolation = "committed",
        limit: int = PAGE_RECORDS,
    ) -> list[Record]:
        """Wait for this number of records; answer the first `limit` of those that are meant then, as `records` does.
        Only records count that `records` with the same arguments returns.

        The topic need not exist yet. Raises RequestTimedOut, which lists what is there instead,
        UnknownTopicOrPartition for a partition that the topic does not have, and ValueError for the mark of another
        topic.
        """
        _checked(limit)
        selection = self._topic.selection(partition, key, [None], since, isolation)
        reading = Reading(self._operations, self._topic.name, selection, count, beyond=0, kept=SHOWN)
        await reading.arrive(timeout_ms)
        if self._operations.topic_id(self._topic.name) is None:
            return []
        return await self._topic.page(selection, limit)


class HostPages:
    """The records of any topic, in pages: see `TopicPages`."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation: Isolation = "committed",
        limit: int = PAGE_RECORDS,
        cursor: str | None = None,
    ) -> list[Record]:
        """The records of one partition or of all, in the order of partition and offset: a page of them, as
        `/topics/{topic}/records` answers."""
        pages = TopicPages(self._operations, topic)
        return await pages.records(partition, isolation=isolation, limit=limit, cursor=cursor)

    @waits_for_clients
    async def wait_for_records(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout_ms: int = 10_000,
        isolation: Isolation = "committed",
        limit: int = PAGE_RECORDS,
    ) -> list[Record]:
        """Wait until a topic has at least `count` records; answer the first `limit` of them.

        The topic need not exist yet. Raises RequestTimedOut, which lists the present records and those that `isolation`
        hides.
        """
        pages = TopicPages(self._operations, topic)
        return await pages.wait_for(count, timeout_ms=timeout_ms, isolation=isolation, limit=limit)


def link_header(prefix: str, topic: str, arguments: Mapping[str, Any], page: RecordPage, decode: str | None) -> str:
    """The header `Link` of a page that is not the last one: where the next one is."""
    assert page.next is not None
    given = {name: to_json(value) for name, value in arguments.items() if name not in NOT_REPEATED}
    cursor = f"{page.next.partition}:{page.next.offset}"
    if isinstance(given.get("key"), dict):
        cursor += f":{given.pop('key')['base64']}"
    query = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    query |= {"cursor": cursor} | ({} if decode is None else {"decode": decode})
    return f'<{prefix}/topics/{quote(topic, safe="")}/records?{urlencode(query)}>; rel="next"'


def _checked(limit: int) -> int:
    if limit < 1:
        raise WrongValue(f"limit={limit}: must be at least 1", "/limit")
    return limit


def _position(cursor: str | None) -> tuple[Position, bytes | None]:
    """The position that a cursor says, and its key. Raises WrongValue."""
    if cursor is None:
        return BEGINNING, None
    found = re.fullmatch(r"(\d{1,10}):(\d{1,19})(?::([A-Za-z0-9+/]+={0,2}))?", cursor, re.ASCII)
    try:
        if found is not None:
            key = None if found[3] is None else b64decode(found[3], validate=True)
            return Position(int(found[1]), int(found[2])), key
    except ValueError:
        pass  # no Base64
    raise WrongValue(f"cursor={cursor!r}: must be that of the header Link", "/cursor")
