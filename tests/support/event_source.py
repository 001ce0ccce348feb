"""The client's end of the event streams of a control server, and what streams leave behind there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from kmini.broker.faults.active_rules import ActiveRules
from support.control_api import ControlApi
from support.small_client import SmallClient
from support.until import TIMEOUT_S, until

PATH = "/api/v1/events"

Found = tuple[str, dict[str, Any]]


class EventSource:
    """The client's end of a stream: reads what WHATWG's rules make of it."""

    def __init__(self, url: str, query: str = "", headers: dict[str, str] | None = None) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
        self._connection.request("GET", f"{PATH}?{query}", headers=headers or {})
        self.response = self._connection.getresponse()
        self.last_id = ""
        self.comments = 0
        self.retry_ms = 0
        if self.response.status == 200:
            assert self._block() is None, "the first block has the time of a retry, and the id to begin with"

    def _block(self) -> Found | None:
        """The event of the next block; None for a block without data. Raises EOFError."""
        name, data = "message", []
        while (line := self.response.readline()) not in (b"\n", b"\r\n"):
            if not line:
                raise EOFError
            field, _, value = line.decode().rstrip("\r\n").partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif field == "retry":
                self.retry_ms = int(value)
            else:
                assert (field, value) == ("", "keep-alive")
                self.comments += 1
        return (name, json.loads("\n".join(data))) if data else None

    def next(self) -> Found:
        """The next event."""
        while (found := self._block()) is None:
            pass
        return found

    def find(self, name: str, **expected: Any) -> dict[str, Any]:
        """The data of the next event of this name with these members."""
        while True:
            found, data = self.next()
            if found == name and expected.items() <= data.items():
                return data

    def find_comment(self) -> None:
        """Wait for a keep-alive."""
        before = self.comments
        while self.comments == before:
            assert self._block() is None

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@contextmanager
def streams(server: ControlApi) -> Iterator[Callable[..., EventSource]]:
    opened: list[EventSource] = []

    def new(query: str = "", headers: dict[str, str] | None = None) -> EventSource:
        opened.append(EventSource(server.url, query, headers))
        return opened[-1]

    yield new
    for one in opened:
        one.close()


def watchers(server: ControlApi) -> dict[str, int]:
    """What watches for the sake of streams."""

    def count() -> dict[str, int]:
        brokers = server.managed.brokers
        looks = [task for task in asyncio.all_tasks() if "_keep_looking" in repr(task.get_coro())]
        return {
            "tasks": len(looks),
            "logs": sum(len(one.maintenance._listeners) - 1 for one in brokers),  # the cleaner listens always
            "resets": sum(not isinstance(told.__self__, ActiveRules) for one in brokers for told in one.on_reset),
            "clients": sum(len(one.server.when_left) for one in brokers),
            "transactions": sum(len(one.transactions.watchers) for one in brokers),
            "journal": sum(len(one.services.journal.watchers) for one in brokers if one.services.journal),
            "streams": len(server.server.events._streams),
        }

    counted: dict[str, int] = server.call(count)
    return counted


def until_left(server: ControlApi) -> None:
    """Wait until nothing is left of any stream."""
    until(lambda: not any(watchers(server).values()), lambda: watchers(server))


def client(server: ControlApi, name: str = "app") -> SmallClient:
    (broker,) = server.managed.brokers
    return SmallClient(broker.address, name)


Open = Callable[..., EventSource]
"""Opens a stream, by its query and its headers."""
