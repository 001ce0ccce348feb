"""What the journal writes while requests are served: a list for each request, of what is there already.

Nothing is decoded. A small request is kept as its bytes, and so is a small answer; of a large Produce the headers of
its batches are kept, and of a large answer its errors. Passwords, tokens and values of settings never enter: of a
request that may hold them only the key fields are kept, which have none, and of its answer only the errors.

The dispatcher calls `Recorder.begin` before the handler, and `end` or `closed` when the request is answered or will not
be. Requests of the brokers of a cluster to each other are not written. Everything belongs to the brokers' event loop.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import API_NAMES
from ..api.answer_errors import error_codes
from ..api.key_fields import Names, key_fields, without_records
from .layout import ANSWERED, ASKED, BYTES_IN, ENDED_S, NUMBER, SOURCE, Entry

if TYPE_CHECKING:
    from ...protocol.framing import Frame
    from ...protocol.schema import Request, Response
    from ..api.request_context import Context, RequestConnection
    from ..services import Services

MOST_ENTRIES = 10_000
"""Requests that a journal keeps; above that the oldest one is lost with each new one."""
MOST_BYTES = 4 * 1024 * 1024
"""Bytes that it keeps of large requests, about; above that the oldest requests are lost."""
SMALL_BYTES = 512
"""Bytes up to which a request is small, and an answer."""
COPIED_BYTES = 64 * 1024
"""Bytes up to which a request without records is copied; of a larger one the key fields are read at once."""
MOST_SOURCES = 100
"""Kinds of requests of a connection that are remembered: a client may make up names."""
_COUNT_AGAIN_BYTES = MOST_BYTES // 16
"""Bytes of new large requests after which those of all requests are counted again."""

SECRET_APIS = frozenset(
    {
        "AlterConfigs",
        "AlterUserScramCredentials",
        "CreateDelegationToken",
        "CreateTopics",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeUserScramCredentials",
        "ExpireDelegationToken",
        "IncrementalAlterConfigs",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
    }
)
"""APIs whose requests or answers may hold passwords, tokens or values of settings."""


class Source:
    """What the requests of a connection share that have the same API, version and client id."""

    __slots__ = (
        "api",
        "api_key",
        "client_id",
        "keeps_answer_bytes",
        "keeps_request_bytes",
        "node",
        "peer",
        "principal",
        "version",
    )

    def __init__(
        self, node: int, connection: RequestConnection, api_key: int, version: int, client_id: str | None
    ) -> None:
        self.node = node
        self.api_key = api_key
        self.api = API_NAMES.get(api_key, f"api-{api_key}")
        self.version = version
        self.client_id = client_id
        self.peer = "{}:{}".format(*connection.peer)
        self.principal = str(connection.principal)
        self.keeps_answer_bytes = -1 if self.api in SECRET_APIS else SMALL_BYTES
        """Bytes up to which an answer is kept as it is."""
        self.keeps_request_bytes = -1 if self.api == "Fetch" else self.keeps_answer_bytes
        """Bytes up to which the body of a request is all that is kept of it."""


class Answer:
    """What is kept of an answer that is not kept itself."""

    __slots__ = ("codes", "size_bytes")

    def __init__(self, size_bytes: int, codes: tuple[int, ...]) -> None:
        self.size_bytes = size_bytes
        self.codes = codes


class RequestJournal:
    """The last requests of a broker, or of the brokers of a cluster."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self.numbers = count(1)
        self.first_number = 1
        """Of the first request since the journal was made or cleared."""
        self.names: dict[int, Names] = {}
        """How the requests of a node are read, by its number."""
        self.began_s, self.began_wall_s = time.perf_counter(), time.time()
        self.watchers: set[Callable[[], None]] = set()
        """Are called after a request is written, or written to."""
        self._large_bytes = 0

    def recorder(self, services: Services, connection: RequestConnection) -> Recorder:
        """What writes the requests of a connection."""
        self.names.setdefault(services.node_id, Names.of(services))
        return Recorder(self, services, connection)

    def clear(self) -> None:
        """Forget all requests; they do not count as lost. The numbers go on."""
        self.first_number = self.next_number
        self.entries.clear()

    def begin_anew(self, node_id: int) -> None:
        """Forget all requests after a reset of this broker, and how to read them."""
        self.clear()
        self.names.pop(node_id, None)

    @property
    def next_number(self) -> int:
        """The number that the next request will have."""
        last: int = self.entries[-1][NUMBER] if self.entries else self.first_number - 1
        return last + 1

    @property
    def lost(self) -> int:
        """How many requests were dropped, because there were too many."""
        first: int = self.entries[0][NUMBER] if self.entries else self.first_number
        return first - self.first_number

    def wake(self) -> None:
        """Tell those that wait for a request."""
        for watcher in [*self.watchers]:
            watcher()

    def count_large(self, size_bytes: int) -> None:
        """Count a large request; drop the oldest requests above MOST_BYTES."""
        self._large_bytes += size_bytes
        if self._large_bytes < _COUNT_AGAIN_BYTES:
            return
        self._large_bytes = 0
        held = sum(entry_bytes(entry) for entry in self.entries)
        while held > MOST_BYTES and len(self.entries) > 1:
            held -= entry_bytes(self.entries.popleft())


def entry_bytes(entry: Entry) -> int:
    """About how many bytes of memory an entry of the journal takes."""
    asked = entry[ASKED]
    size: int = len(asked) if isinstance(asked, bytes) else min(entry[BYTES_IN], COPIED_BYTES)
    return 300 + size


class Recorder:
    """Writes the requests of one connection."""

    __slots__ = ("_append", "_connection", "_context", "_next", "_services", "_source", "_sources", "journal")

    def __init__(self, journal: RequestJournal, services: Services, connection: RequestConnection) -> None:
        self.journal = journal
        self._services = services
        self._connection = connection
        self._append = journal.entries.append
        self._next = journal.numbers.__next__
        self._sources: dict[tuple[int, int, str | None], Source] = {}
        self._context: Context | None = None
        """That of the last request, and its source; None for a source whose requests are not written."""
        self._source: Source | None = None

    def begin(self, frame: Frame, request: Request, context: Context, started_s: float) -> Entry | None:
        """Write a request that is about to be served; return the entry. None for a request of another broker."""
        if context is not self._context:
            self._source = self._source_of(frame)
            self._context = context
        source = self._source
        if source is None:
            return None
        body = frame.body
        size = len(body)
        asked: Any = bytes(body) if size <= source.keeps_request_bytes else self._kept(source, body, request)
        entry = [self._next(), source, frame.correlation_id, started_s, None, asked, size, None, None]
        self._append(entry)
        if self.journal.watchers:
            self.journal.wake()
        return entry

    def _source_of(self, frame: Frame) -> Source | None:
        """The source of the requests of this connection that have the same header."""
        if self._connection.peer[1] == 0:
            return None
        key = frame.api_key, frame.api_version, frame.client_id
        found = self._sources.get(key)
        if found is None:
            if len(self._sources) >= MOST_SOURCES:
                self._sources.clear()
            found = self._sources[key] = Source(self._services.node_id, self._connection, *key)
        return found

    def _kept(self, source: Source, body: memoryview, request: Any) -> Any:
        """What is kept of a request of which not just the bytes are."""
        size = len(body)
        if source.api in SECRET_APIS:
            return key_fields(request, Names.of(self._services))
        if source.api == "Produce":
            kept = without_records(request)
            self.journal.count_large(100 * sum(len(topic.partition_data) for topic in kept.topic_data))
            return kept
        if size > SMALL_BYTES:
            self.journal.count_large(min(size, COPIED_BYTES))
        if size > COPIED_BYTES:
            return key_fields(request, Names.of(self._services))
        if source.api == "Fetch" and request.session_epoch > 0:
            return bytes(body), self._services.fetch_sessions.keys_of(request.session_id)
        return bytes(body)

    def end(self, entry: Entry, ended_s: float, response: Response | None, sent: bytearray | None) -> None:
        """Write how a request was answered. `sent` is the first buffer of the answer; None if there is no answer."""
        entry[ENDED_S] = ended_s
        if sent is None or response is None:
            entry[ANSWERED] = "no answer is due"
        elif len(sent) <= entry[SOURCE].keeps_answer_bytes and len(sent) == frame_bytes(sent):
            entry[ANSWERED] = sent
        else:
            entry[ANSWERED] = Answer(frame_bytes(sent), tuple(dict.fromkeys(error_codes(response))))
        if self.journal.watchers:
            self.journal.wake()

    def closed(self, entry: Entry, reason: object) -> None:
        """Write that a request was not answered, and why."""
        entry[ENDED_S] = time.perf_counter()
        entry[ANSWERED] = str(reason)
        self.journal.wake()

    def refused(self, frame: Frame, reason: object) -> None:
        """Write a request that no handler saw: of an API or a version that is not served, malformed, or before the
        login. Nothing of its body is kept."""
        source = self._source_of(frame)
        if source is None:
            return
        entry = [
            self._next(),
            source,
            frame.correlation_id,
            time.perf_counter(),
            None,
            None,
            len(frame.body),
            None,
            None,
        ]
        self._append(entry)
        self.closed(entry, reason)


def frame_bytes(start: bytearray) -> int:
    """The size of the frame that begins with these bytes."""
    return int.from_bytes(start[:4], "big") + 4
