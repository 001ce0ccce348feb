# cython: nonecheck=True
"""What the journal writes while requests are served: an entry for each request, of what is there already.

Nothing is decoded. A small request is kept as its bytes, and so is a small answer; of a large Produce the headers of
its batches are kept, and of a large answer its errors. Passwords, tokens and values of settings never enter: of a
request that may hold them only the key fields are kept, which have none, and of its answer only the errors.

The dispatcher calls `Recorder.begin` before the handler, and `end` or `closed` when the request is answered or will not
be. Requests of the brokers of a cluster to each other are not written. Everything belongs to the brokers' event loop.

The module is compiled where there was a C compiler (`protocol/extension_modules.py`): an edit takes effect with the
next installation, or with KMINI_PURE=1.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from ...protocol import cython_words as cython
from ...protocol.api_keys import API_NAMES
from ..api.answer_errors import error_codes
from ..api.key_fields import Names, key_fields, without_records

MOST_ENTRIES = 10_000
"""Requests that a journal keeps; above that the oldest one is lost with each new one."""
MOST_BYTES = 4 * 1024 * 1024
"""Bytes that it keeps of large requests, about; above that the oldest requests are lost."""
SMALL_BYTES = 512
"""Bytes up to which a request is small, and an answer."""
COPIED_BYTES = 64 * 1024
"""Bytes up to which a request without records is copied; of a larger one the key fields are read at once."""
MOST_AUTO_CREATED = 100
"""Topics that a journal knows to have been created automatically; above that the oldest one is forgotten."""
MOST_SOURCES = 100
"""Kinds of requests of a connection that are remembered: a client may make up names."""
COUNT_AGAIN_BYTES = MOST_BYTES // 16
"""Bytes of new large requests after which those of all requests are counted again."""
ENTRY_BYTES = 300
"""Bytes of memory that an entry takes beside what it keeps of the request, about."""

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

    def __init__(self, node: int, connection: Any, api_key: int, version: int, client_id: str | None) -> None:
        self.node = node
        self.api_key = api_key
        self.api = API_NAMES.get(api_key, f"api-{api_key}")
        self.version = version
        self.client_id = client_id
        self.peer = "{}:{}".format(*connection.peer)
        self.principal = str(connection.principal)
        self.is_secret = self.api in SECRET_APIS


class Answer:
    """What is kept of an answer that is not kept itself."""

    def __init__(self, size_bytes: int, codes: tuple[int, ...]) -> None:
        self.size_bytes = size_bytes
        self.codes = codes


@cython.no_gc
@cython.freelist(8)
@cython.final
@cython.cclass
class Entry:
    """A request in the journal, as it is written."""

    number = cython.declare(cython.longlong, visibility="public")
    """1 for the first request that the journal saw."""
    source = cython.declare(object, visibility="public")
    correlation_id = cython.declare(cython.int, visibility="public")
    started_s = cython.declare(cython.double, visibility="public")
    """By `time.perf_counter`, as the next one."""
    ended_s = cython.declare(cython.double, visibility="public")
    """0 while the request is in service."""
    asked = cython.declare(object, visibility="public")
    """The body as bytes; a pair of it and the partitions of its fetch session; a Produce without records; or
    KeyFields."""
    bytes_in = cython.declare(cython.Py_ssize_t, visibility="public")
    answered = cython.declare(object, visibility="public")
    """The frame of the answer, as a buffer; its size, if it has no error; an `Answer`; a text that says why there is
    none; or None."""
    faults = cython.declare(object, visibility="public")
    """The names of the fault rules that acted, in a list, or None."""

    def note_fault(self, name: str) -> None:
        """Write that a fault rule acted on the request."""
        self.faults = [*(self.faults or ()), name]

    @property
    def kept_bytes(self) -> int:
        """About how many bytes of memory it takes."""
        kept = self.asked
        size: int = len(kept) if isinstance(kept, bytes) else min(self.bytes_in, COPIED_BYTES)
        return ENTRY_BYTES + size


@cython.final
@cython.cclass
class RequestJournal:
    """The last requests of a broker, or of the brokers of a cluster."""

    entries = cython.declare(object, visibility="readonly")
    names = cython.declare(dict, visibility="readonly")
    """How the requests of a node are read, by its number: its `Names`."""
    watchers = cython.declare(set, visibility="readonly")
    """Are called after a request is written, or written to."""
    first_number = cython.declare(cython.longlong, visibility="readonly")
    """Of the first request since the journal was made or cleared."""
    last_number = cython.declare(cython.longlong, visibility="readonly")
    auto_created = cython.declare(dict, visibility="readonly")
    """The topics that were created because a request named them (`auto.create.topics.enable`): by name, the request's
    client. None stands for a client without an id."""
    began_s = cython.declare(cython.double, visibility="readonly")
    """When the journal was made, by `time.perf_counter`, and by the wall clock."""
    began_wall_s = cython.declare(cython.double, visibility="readonly")
    _append: Any
    _large_bytes: cython.Py_ssize_t

    def __init__(self) -> None:
        self.entries = deque(maxlen=MOST_ENTRIES)
        self._append = self.entries.append
        self.names, self.auto_created = {}, {}
        self.watchers = set()
        self.first_number, self.last_number = 1, 0
        self.began_s, self.began_wall_s = time.perf_counter(), time.time()
        self._large_bytes = 0

    def recorder(self, services: Any, connection: Any) -> Recorder:
        """What writes the requests of a connection."""
        self.names[services.node_id] = Names.of(services)
        return Recorder(self, services, connection)

    @cython.ccall
    def add(self, entry: Entry) -> None:
        """Append an entry, which gets the next number."""
        self.last_number += 1
        entry.number = self.last_number
        self._append(entry)

    def note_auto_created(self, topics: list[str], client_id: str | None) -> None:
        """Write that topics were created because a request of a client named them."""
        for topic in topics:
            self.auto_created.pop(topic, None)
            self.auto_created[topic] = client_id
        while len(self.auto_created) > MOST_AUTO_CREATED:
            del self.auto_created[next(iter(self.auto_created))]

    def clear(self) -> None:
        """Forget all requests; they do not count as lost. The numbers go on."""
        self.first_number = self.last_number + 1
        self.entries.clear()
        self.auto_created.clear()

    def begin_anew(self, node_id: int) -> None:
        """Forget all requests after a reset of this broker, and how to read them."""
        self.clear()
        self.names.pop(node_id, None)

    @property
    def next_number(self) -> int:
        """The number that the next request will have."""
        following: int = self.last_number + 1
        return following

    @property
    def lost(self) -> int:
        """How many requests were dropped, because there were too many."""
        dropped: int = self.last_number + 1 - self.first_number - len(self.entries)
        return dropped

    def wake(self) -> None:
        """Tell those that wait for a request."""
        for watcher in [*self.watchers]:
            watcher()

    def count_large(self, size_bytes: int) -> None:
        """Count a large request; drop the oldest requests above MOST_BYTES."""
        self._large_bytes += size_bytes
        if self._large_bytes < COUNT_AGAIN_BYTES:
            return
        self._large_bytes = 0
        held = sum([entry.kept_bytes for entry in self.entries])
        while held > MOST_BYTES and len(self.entries) > 1:
            held -= self.entries.popleft().kept_bytes


@cython.final
@cython.cclass
class Recorder:
    """Writes the requests of one connection."""

    entry = cython.declare(object, visibility="readonly")
    """The request in service; None between requests."""
    journal: RequestJournal
    _services: Any
    _connection: Any
    _context: Any
    """That of the last request, and its source; None for a source whose requests are not written."""
    _source: Any
    _is_fetch: cython.bint
    _keeps_bytes: cython.Py_ssize_t
    """Bytes up to which the body of a request is kept as it is, and an answer."""
    _sources: dict[tuple[int, int, str | None], Source]

    def __init__(self, journal: RequestJournal, services: Any, connection: Any) -> None:
        self.journal = journal
        self._services = services
        self._connection = connection
        self._context = self._source = self.entry = None
        self._is_fetch, self._keeps_bytes = False, -1
        self._sources = {}

    def begin(self, frame: Any, request: Any, context: Any, started_s: cython.double) -> None:
        """Write a request that is about to be served: it is the `entry`. None for a request of another broker."""
        if context is not self._context:
            self._choose(frame)
            self._context = context
        if self._source is None:
            return
        body: memoryview = frame.body
        size: cython.Py_ssize_t = len(body)
        entry: Entry = Entry.__new__(Entry)
        entry.source = self._source
        entry.correlation_id = frame.correlation_id
        entry.started_s = started_s
        entry.bytes_in = size
        if size > self._keeps_bytes:
            entry.asked = self._kept(body, request)
        elif self._is_fetch and request.session_epoch > 0:
            entry.asked = (bytes(body), self._services.fetch_sessions.keys_of(request.session_id))
        else:
            entry.asked = bytes(body)
        self.journal.add(entry)
        self.entry = entry
        if self.journal.watchers:
            self.journal.wake()

    def _choose(self, frame: Any) -> None:
        """Have the next requests written as those with such a header."""
        source = self._source = self._source_of(frame)
        if source is not None:
            self._keeps_bytes = -1 if source.is_secret else SMALL_BYTES
            self._is_fetch = source.api == "Fetch"

    def _source_of(self, frame: Any) -> Any:
        """The source of the requests of this connection that have the same header."""
        if self._connection.peer[1] == 0:
            return None
        key = (frame.api_key, frame.api_version, frame.client_id)
        found = self._sources.get(key)
        if found is None:
            if len(self._sources) >= MOST_SOURCES:
                self._sources.clear()
            found = self._sources[key] = Source(self._services.node_id, self._connection, *key)
        return found

    def _kept(self, body: memoryview, request: Any) -> Any:
        """What is kept of a request of which not just the bytes are."""
        size, source = len(body), self._source
        if source.is_secret:
            return key_fields(request, Names.of(self._services))
        if source.api == "Produce":
            kept = without_records(request)
            self.journal.count_large(100 * sum([len(topic.partition_data) for topic in kept.topic_data]))
            return kept
        if size > SMALL_BYTES:
            self.journal.count_large(min(size, COPIED_BYTES))
        if size > COPIED_BYTES:
            return key_fields(request, Names.of(self._services))
        if self._is_fetch and request.session_epoch > 0:
            return bytes(body), self._services.fetch_sessions.keys_of(request.session_id)
        return bytes(body)

    def end(self, response: Any, sent: Any, ended_s: cython.double) -> None:
        """Write how the request was answered. `sent` is the first buffer of the answer; None if there is no answer."""
        entry: Entry = self.entry
        if entry is None:
            return
        self.entry = None
        entry.ended_s = ended_s
        if sent is None:
            entry.answered = "no answer is due"
        else:
            size: cython.Py_ssize_t = frame_bytes(sent)
            if size <= self._keeps_bytes and size == len(sent):
                entry.answered = sent
            elif self._is_fetch and not _has_errors(response):
                entry.answered = size
            else:
                entry.answered = Answer(size, tuple(dict.fromkeys(error_codes(response))))
        if self.journal.watchers:
            self.journal.wake()

    def closed(self, frame: Any, reason: object) -> None:
        """Write that a request is not answered, and why. One that no handler saw is of an API or a version that is not
        served, malformed, or before the login; nothing of its body is kept."""
        entry: Entry = self.entry
        self.entry = None
        if entry is None:
            source = self._source_of(frame)
            if source is None:
                return
            entry = Entry.__new__(Entry)
            entry.source = source
            entry.correlation_id = frame.correlation_id
            entry.started_s = time.perf_counter()
            entry.bytes_in = len(frame.body)
            self.journal.add(entry)
        entry.ended_s = time.perf_counter()
        entry.answered = str(reason)
        self.journal.wake()


@cython.cfunc
@cython.exceptval(-1)
def _has_errors(response: Any) -> cython.bint:
    """Whether the answer to a Fetch has an error; what `error_codes` finds, at a third of its price."""
    if response.error_code:
        return True
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code:
                return True
    return False


@cython.ccall
@cython.exceptval(-1)
def frame_bytes(start: bytearray) -> cython.Py_ssize_t:
    """The size of the frame that begins with these bytes, of which there are 4 at least."""
    return (start[0] << 24 | start[1] << 16 | start[2] << 8 | start[3]) + 4
