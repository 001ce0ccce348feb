"""The counters of a broker: plain numbers, raised where things happen. `metrics_text.py` renders them."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from operator import attrgetter

LATENCY_BUCKETS = 26
"""Bucket n holds what took less than 2**n microseconds; the last one everything slower."""
_BUCKET_ENDS_S = (*(2**number / 1e6 for number in range(LATENCY_BUCKETS - 1)), math.inf)
"""The seconds below which the answers of each bucket stay."""
MANY_ANSWERS = 256
"""Answers whose times are kept, before they are summed up: that is cheaper than to count each one."""


class TopicMetrics:
    """The traffic of one topic. Numbers only grow."""

    __slots__ = ("bytes_in", "bytes_out", "fetch_requests", "messages_in", "produce_requests")

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = self.produce_requests = self.fetch_requests = 0

    def add(self, other: TopicMetrics) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_COUNTERS = attrgetter(*TopicMetrics.__slots__)
"""The numbers of a topic, all at once."""


class RequestMetrics:
    """The requests of one API: how many, and how long from decoding to the answer being handed to the socket."""

    __slots__ = ("_buckets", "_seconds", "errors", "seconds_taken")

    def __init__(self) -> None:
        self.seconds_taken: list[float] = []
        """The times of the last answers. The code that adds one calls `sum_up` where there are MANY_ANSWERS."""
        self._seconds = 0.0
        self._buckets = [0] * LATENCY_BUCKETS
        self.errors: dict[str, int] = {}
        """By the name of the error."""

    def sum_up(self) -> None:
        """Count the last answers."""
        taken = self.seconds_taken
        self._seconds += sum(taken)
        taken.sort()
        counted = 0
        for bucket, end_s in enumerate(_BUCKET_ENDS_S):
            if counted == len(taken):
                break
            before, counted = counted, bisect_left(taken, end_s)
            self._buckets[bucket] += counted - before
        taken.clear()

    @property
    def seconds(self) -> float:
        """How long all answers took together."""
        self.sum_up()
        return self._seconds

    @property
    def count(self) -> int:
        """How many requests were answered."""
        self.sum_up()
        return sum(self._buckets)

    @property
    def buckets(self) -> list[int]:
        """How many requests were answered within the time of each bucket, and not within that of the one before."""
        self.sum_up()
        return [*self._buckets]


class Throttles:
    """How often, and for how long together, clients were over a quota."""

    __slots__ = ("count", "seconds")

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0


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
        self.throttles: dict[str, Throttles] = {}
        """By quota, such as `producer_byte_rate`."""
        self._of_deleted_topics = TopicMetrics()

    def produced(self, topic: str, messages: int, size: int) -> None:
        """One partition of a Produce request was appended."""
        counted = self.topics.get(topic) or self.new_topic(topic)
        counted.produce_requests += 1
        counted.messages_in += messages
        counted.bytes_in += size

    def fetched(self, topic: str, size: int) -> None:
        """One partition of a Fetch request was answered, with `size` bytes if that was a consumer's."""
        counted = self.topics.get(topic) or self.new_topic(topic)
        counted.fetch_requests += 1
        counted.bytes_out += size

    def of_api(self, api_key: int) -> RequestMetrics:
        """The counters of the requests of one API."""
        return self.requests.get(api_key) or self.requests.setdefault(api_key, RequestMetrics())

    def failed(self, api_key: int, error_name: str) -> None:
        """A request as a whole was answered with an error."""
        errors = self.of_api(api_key).errors
        errors[error_name] = errors.get(error_name, 0) + 1

    def throttled(self, quota: str, duration_ms: int) -> None:
        """A client was over a quota, and is served again after this time."""
        counted = self.throttles.setdefault(quota, Throttles())
        counted.count += 1
        counted.seconds += duration_ms / 1000

    def forget(self, topic: str) -> None:
        """A topic is deleted: its own numbers go, the broker's keep what it contributed."""
        deleted = self.topics.pop(topic, None)
        if deleted is not None:
            self._of_deleted_topics.add(deleted)

    def total(self) -> TopicMetrics:
        """The traffic of all topics, with those that are deleted."""
        total = TopicMetrics()
        counted = map(_COUNTERS, (self._of_deleted_topics, *self.topics.values()))
        for name, values in zip(TopicMetrics.__slots__, zip(*counted, strict=True), strict=True):
            setattr(total, name, sum(values))
        return total

    def new_topic(self, topic: str) -> TopicMetrics:
        """Begin to count for a topic."""
        return self.topics.setdefault(topic, TopicMetrics())
