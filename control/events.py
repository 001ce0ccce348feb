"""The streams of events (`GET /api/v1/events`), as WHATWG's Server-Sent Events.

One task looks for changes while there is a stream, and all streams read what it found. There is no queue for each
stream: one that reads slowly finds that the ring has lost what it did not read, and is told how much.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from http import HTTPStatus

from kmini.control.changes import Changes
from kmini.control.control_operations import Served
from kmini.control.event_ring import TYPES, EventRing, Reader
from kmini.control.json_types import WrongValue
from kmini.control.problems import TooMany
from kmini.testkit.phrases import nearest
from kmini.web.http_serving import Request, Response

log = logging.getLogger("kmini.http")

MOST_STREAMS = 100
"""Streams that may be open."""

LOOK_S = 0.25
"""Seconds between two looks."""

KEEP_ALIVE_MS = 15_000
"""Milliseconds of the clock of liveness after which a silent stream has a comment."""

RETRY_MS = 1_000
"""Milliseconds after which a client may connect again."""

MOST_AT_ONCE = 500
"""Events that are written at once."""

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}

ARGUMENTS = ("types", "topic", "last_event_id")
LAST_EVENT_ID = "Last-Event-ID"


class _Stream:
    """A stream to a client."""

    def __init__(self, wants_requests: bool, now_ms: int) -> None:
        self.wants_requests = wants_requests
        self.written_ms = now_ms
        self.has_ended = False
        self.wake = asyncio.Event()


class _Asked:
    """What a request for a stream asks for."""

    def __init__(self, request: Request) -> None:
        """Raises WrongValue."""
        query = request.queries
        for name in query:
            if name not in ARGUMENTS:
                raise WrongValue(f"there is no argument {name}{nearest(name, ARGUMENTS)}", f"/{name}")
        self.types: Sequence[str] = TYPES
        if "types" in query:
            self.types = tuple(dict.fromkeys(",".join(query["types"]).split(",")))
        for kind in self.types:
            if kind not in TYPES:
                raise WrongValue(f"types={kind!r}: there is no such type{nearest(kind, TYPES)}", "/types")
        self.topics = query.get("topic", [])
        self.last = _number(request.headers.get(LAST_EVENT_ID) or request.query.get("last_event_id"))


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise WrongValue(f"last_event_id={text!r}: must be the id of an event", "/last_event_id")
    return int(text)


class EventStreams:
    """The open streams of a control server, and the task that looks for changes."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._ring = EventRing()
        self._changes = Changes(served, self._ring.add)
        self._streams: set[_Stream] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    async def serve(self, request: Request) -> Response:
        """Stream events until the client leaves or the server ends. Raises WrongValue, and TooMany."""
        asked = _Asked(request)
        if len(self._streams) >= MOST_STREAMS:
            raise TooMany(f"{MOST_STREAMS} event streams are open, and there is room for no more")
        return Response(HTTPStatus.OK, HEADERS, self._pieces(asked))

    async def _pieces(self, asked: _Asked) -> AsyncGenerator[bytes, None]:
        wants_requests = "requests" in asked.types
        is_first_for_requests = wants_requests and not any(one.wants_requests for one in self._streams)
        stream = _Stream(wants_requests, self._now_ms())
        self._streams.add(stream)
        try:
            if is_first_for_requests and asked.last is None:
                self._changes.requests.skip()
            await self._look()
            if self._task is None or self._task.done():
                self._task = asyncio.ensure_future(self._keep_looking())
            reader = Reader(self._ring, asked.types, asked.topics, asked.last)
            yield f"retry: {RETRY_MS}\n{reader.id_line}\n".encode()
            while not stream.has_ended:
                stream.wake.clear()
                text = reader.read(MOST_AT_ONCE)
                if not text and self._now_ms() - stream.written_ms >= KEEP_ALIVE_MS:
                    text = f": keep-alive\n{reader.id_line}\n"
                if text:
                    yield text.encode()
                    stream.written_ms = self._now_ms()
                else:
                    await stream.wake.wait()
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._stop_looking()

    def end(self) -> None:
        """End all streams, soon."""
        for stream in self._streams:
            stream.has_ended = True
            stream.wake.set()

    # --- the task

    def _stop_looking(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._changes.end()

    async def _keep_looking(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                await self._look()
        except Exception:  # a bug of kmini's: the streams end, and their clients come back
            log.exception("the look for changes failed")
            self.end()

    async def _look(self) -> None:
        """Look once, and wake the streams that have something to write."""
        async with self._looking:
            self._changes.reads_requests = any(one.wants_requests for one in self._streams)
            before = self._ring.last_number
            await self._changes.look()
        now_ms = self._now_ms()
        for stream in self._streams:
            stream.written_ms = min(stream.written_ms, now_ms)  # a reset sets the clock back
            if self._ring.last_number != before or now_ms - stream.written_ms >= KEEP_ALIVE_MS:
                stream.wake.set()

    def _now_ms(self) -> int:
        """The time by the broker's clock of liveness; while it is stopped, by that of the machine."""
        try:
            return self._served.operations.clock.liveness_ms()
        except RuntimeError:
            return time.monotonic_ns() // 1_000_000
