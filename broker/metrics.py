"""The counters of a broker: plain numbers, raised where things happen. `metrics_text.py` renders them."""

from __future__ import annotations

import time

LATENCY_BUCKETS = 26
"""Bucket n holds what took less than 2**n microseconds; the last one everything slower."""
_COUNTED_BUCKETS = 64
"""Buckets while counting: no request takes 2**63 microseconds, so no request asks which one is the last."""


class TopicMetrics:
    """The traffic of one topic. Numbers only grow."""

    __slots__ = ("bytes_in", "bytes_out", "fetch_requests", "messages_in", "produce_requests")

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = self.produce_requests = self.fetch_requests = 0

    def add(self, other: TopicMetrics) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RequestMetrics:
    """The requests of one API: how many, and how long from decoding to the answer being handed to the socket."""

    __slots__ = ("_counts", "errors", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._counts = [0] * _COUNTED_BUCKETS
        self.errors: dict[str, int] = {}
        """By the name of the error."""

    def answered(self, seconds: float) -> None:
        """A request was answered, after `seconds`."""
        self.seconds += seconds
        self._counts[int(seconds * 1e6).bit_length()] += 1

    @property
    def count(self) -> int:
        """How many requests were answered."""
        return sum(self._counts)

    @property
    def buckets(self) -> list[int]:
        """How many requests were answered within the time of each bucket, and not within that of the one before."""
        last = LATENCY_BUCKETS - 1
        return [*self._counts[:last], sum(self._counts[last:])]


class Metrics:
    """The counters of a broker. Every method is cheap enough for each request."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.topics: dict[str, TopicMetrics] = {}
        self.requests: dict[int, RequestMetrics] = {}
        self.replication_bytes_in = self.replication_bytes_out = 0
        """Bytes that this broker fetched as a follower, and that followers fetched from it."""
        self.isr_shrinks = self.isr_expands = self.failed_isr_updates = 0
        """How often it left followers out, or took one in, as a leader, and how often that failed."""
        self._of_deleted_topics = TopicMetrics()

    def produced(self, topic: str, messages: int, size: int) -> None:
        """One partition of a Produce request was appended."""
        counted = self.topics.get(topic) or self.new_topic(topic)
        counted.produce_requests += 1
        counted.messages_in += messages
        counted.bytes_in += size

    def request(self, api_key: int, seconds: float) -> None:
        """A request was answered, after `seconds`."""
        (self.requests.get(api_key) or self._new_api(api_key)).answered(seconds)

    def failed(self, api_key: int, error_name: str) -> None:
        """A request as a whole was answered with an error."""
        errors = (self.requests.get(api_key) or self._new_api(api_key)).errors
        errors[error_name] = errors.get(error_name, 0) + 1

    def forget(self, topic: str) -> None:
        """A topic is deleted: its own numbers go, the broker's keep what it contributed."""
        deleted = self.topics.pop(topic, None)
        if deleted is not None:
            self._of_deleted_topics.add(deleted)

    def total(self) -> TopicMetrics:
        """The traffic of all topics, with those that are deleted."""
        total = TopicMetrics()
        for counted in (self._of_deleted_topics, *self.topics.values()):
            total.add(counted)
        return total

    def new_topic(self, topic: str) -> TopicMetrics:
        """Begin to count for a topic."""
        return self.topics.setdefault(topic, TopicMetrics())

    def _new_api(self, api_key: int) -> RequestMetrics:
        return self.requests.setdefault(api_key, RequestMetrics())
