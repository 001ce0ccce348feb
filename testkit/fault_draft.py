"""A fault rule in the making: on which of its requests it acts, and then what it does, which puts it in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from kmini.broker.clock import Duration
from kmini.broker.faults import rule_checks
from kmini.testkit.handle import brief

if TYPE_CHECKING:
    from kmini.broker.faults.acts import Act

__tracebackhide__ = True  # of a refused rule pytest shows the line of the test

Armed = TypeVar("Armed")
D = TypeVar("D", bound="FaultDraft[Any]")


class FaultDraft(Generic[Armed]):
    """A rule in the making. Every method but the acts returns a further draft; an act puts the rule in force."""

    _lacks = "does not say what it does, as .error(...) or .disconnect() at its end"

    def __init__(
        self,
        arm: Callable[[FaultDraft[Any], Act], Armed],
        api: str | Sequence[str],
        name: str | None,
        conditions: dict[str, Any],
        selection: dict[str, Any],
        unfinished: set[FaultDraft[Any]],
    ) -> None:
        self._put_in_force = arm
        self.api = api
        self.name = name
        self.conditions = conditions
        self.selection = selection
        self._unfinished = unfinished
        """The drafts without an act, which are in force no more than this one."""
        unfinished.add(self)

    def __repr__(self) -> str:
        given = [repr(self.api), *(f"{name}={value!r}" for name, value in self.conditions.items())]
        return f"on({', '.join(given)})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            __tracebackhide__ = True  # pytest shows the line of the test
            from kmini.testkit.name_hints import unknown_attribute  # start-up time counts

            raise AttributeError(unknown_attribute(type(self), name), name=name)

    def _with(self: D, **selection: Any) -> D:
        self._unfinished.discard(self)
        selection = {**self.selection, **selection}
        return type(self)(self._put_in_force, self.api, self.name, self.conditions, selection, self._unfinished)

    # --- which of the requests

    def once(self: D) -> D:
        """Act on the first of these requests."""
        return self._with(times=1)

    def times(self: D, count: int) -> D:
        """Act on the first `count` of these requests."""
        return self._with(times=count)

    def skip(self: D, count: int) -> D:
        """Let the first `count` of these requests pass."""
        return self._with(skip=count)

    def on_call(self: D, *numbers: int) -> D:
        """Act on the n-th of these requests, counted from 1, behind those that are skipped."""
        return self._with(on_call=numbers)

    def every(self: D, count: int) -> D:
        """Act on every n-th of these requests."""
        return self._with(every=count)

    def always(self: D) -> D:
        """Act on all of these requests, which is what a rule does without a word."""
        return self._with()

    def with_probability(self: D, probability: float, *, seed: int | None = None) -> D:
        """Act on each of these requests by chance. The same seed and name of the rule draw the same numbers."""
        return self._with(probability=probability, **({} if seed is None else {"seed": seed}))

    def for_(self: D, duration: Duration) -> D:
        """Act for this long ("10s", milliseconds, a timedelta) from now on, in the time of time-outs."""
        return self._with(**{"for": duration})

    def until(self: D, api: str) -> D:
        """Act until the first request of this API arrives, from any client."""
        return self._with(until=api)

    # --- what it does: answers

    def error(
        self, code: str | int, *, message: str | None = None, record_errors: Mapping[int, str] | None = None
    ) -> Armed:
        """Answer this error ("NOT_LEADER_OR_FOLLOWER"), and apply nothing. A rule with a topic or a partition fails
        only those entries of a request, and the rest is served. `message` is what the answer says beside the code, and
        `record_errors` tells a producer which records of its batch are at fault: the reasons by the index, from 0.
        Raises ValueError for an error that the API cannot answer, naming those that it can, and for a message or
        record errors where it has no field for them. The schema registry answers an error code of its own (40901), or a
        status of HTTP (503)."""
        return self._arm(make_act("error", code, message=message, record_errors=record_errors or {}))

    def apply_then_error(self, code: str | int) -> Armed:
        """Serve the request, then answer this error in place of what was done. Raises ValueError as `error` does."""
        return self._arm(make_act("error", code, applied=True))

    def respond(self, function: Callable[[Any, Any], Any]) -> Armed:
        """Answer what `function(request, answer)` returns: it gets the decoded request, and the answer that the broker
        would give, which it may change. It runs on the broker's thread. Raises TypeError."""
        return self._arm(make_act("respond", function))

    def throttle(self, duration: Duration) -> Armed:
        """Have the answer ask the client to wait, by its field throttle_time_ms, and serve nothing of its connection
        meanwhile, as Kafka does to a client above its quota (KIP-219). Raises ValueError."""
        return self._arm(make_act("throttle", duration))

    def no_records(self) -> Armed:
        """Answer fetches as if there were no records. Raises ValueError for another API."""
        return self._arm(make_act("no_records"))

    def leader(self, broker: int, *, epoch: int | None = None) -> Armed:
        """Answer in Metadata that this broker leads the partitions, -1 for none, and this leader epoch: what a broker
        answers that has not learned of a change yet. Raises ValueError for another API."""
        return self._arm(make_act("leader", broker, **({} if epoch is None else {"epoch": epoch})))

    def without_broker(self, broker: int) -> Armed:
        """Answer Metadata or DescribeCluster as if the cluster did not have this broker; it serves as before. Raises
        ValueError for another API."""
        return self._arm(make_act("without_broker", broker))

    # --- time

    def delay(self, duration: Duration, *, jitter: Duration = 0, when: Literal["before", "after"] = "before") -> Armed:
        """Wait before the request is served, or after that and before its answer; up to `jitter` longer, by chance.
        Raises ValueError."""
        return self._arm(make_act("delay", duration, jitter=jitter, when=when))

    def hold(self, *, when: Literal["before", "after"] = "before") -> Armed:
        """Keep these requests back until `release`; `arrived(n)` waits for them. Raises ValueError."""
        return self._arm(make_act("hold", when))

    # --- the line

    def drop(self, *, applied: bool = False) -> Armed:
        """Never answer, and serve nothing more of the connection. With `applied` the request is served first."""
        return self._arm(make_act("drop", applied=applied))

    def silent(self) -> Armed:
        """Leave requests, or new connections, without an answer until the rule is removed; then they are served."""
        return self._arm(make_act("silent"))

    def disconnect(self, *, applied: bool = False, rst: bool = False) -> Armed:
        """Close the connection without an answer. With `applied` the request is served first; with `rst` the client's
        system reports a reset."""
        return self._arm(make_act("disconnect", applied=applied, rst=rst))

    def apply_then_disconnect(self) -> Armed:
        """Serve the request, and close the connection in place of the answer."""
        return self._arm(make_act("disconnect", applied=True))

    def truncate(self, count: int) -> Armed:
        """Send the first `count` bytes of the answer, and close the connection. Raises ValueError."""
        return self._arm(make_act("truncate", count))

    def trickle(self, bytes_per_second: int | str) -> Armed:
        """Send the answer slowly: 1000 or "1KB/s". Raises ValueError."""
        return self._arm(make_act("trickle", bytes_per_second))

    def corrupt(self, what: Literal["crc", "codec", "partial", "correlation_id", "length", "garbage"] = "crc") -> Armed:
        """Damage the answer: of a fetch the CRC or the codec of a batch, or its last batch, cut in the middle; of any
        answer its correlation id, its size, or all of its bytes. Raises ValueError."""
        return self._arm(make_act("corrupt", what))

    def expired_token(self) -> Armed:
        """Refuse the token of a login by OAUTHBEARER as one that has expired: an act of `on("SaslAuthenticate")`."""
        return self._arm(make_act("expired_token"))

    def refuse(self) -> Armed:
        """Reset new connections, or those that begin a TLS handshake: an act of `on("connect")` and `on("tls")`."""
        return self._arm(make_act("refuse"))

    def wrong_certificate(self) -> Armed:
        """Show a certificate that no client trusts: an act of `on("tls")`. Needs the extra "tls"."""
        return self._arm(make_act("wrong_certificate"))

    # --- the disk: acts of on("disk")

    def slow(self, duration: Duration) -> Armed:
        """Let each operation on a file take so much longer. The broker reads and writes on its one loop, and does
        nothing else meanwhile, for no client. Raises ValueError."""
        return self._arm(make_act("slow", duration))

    def slow_fsync(self, duration: Duration) -> Armed:
        """Let what makes changes durable take so much longer. Only requests that wait for it are late. Raises
        ValueError."""
        return self._arm(make_act("slow_fsync", duration))

    def full(self) -> Armed:
        """Fail what needs room on the disk, as a full disk does."""
        return self._arm(make_act("disk", "full"))

    def read_only(self) -> Armed:
        """Fail what changes the disk, as a file system that is mounted read-only does."""
        return self._arm(make_act("disk", "read_only"))

    def fail(self) -> Armed:
        """Fail every operation on a file, as a broken disk does."""
        return self._arm(make_act("disk", "fail"))

    def fail_fsync(self) -> Armed:
        """Fail what makes changes durable."""
        return self._arm(make_act("disk", "fail_fsync"))

    def _arm(self, act: Act) -> Armed:
        self._unfinished.discard(self)
        try:
            return self._put_in_force(self, act)
        except Exception as error:
            raise brief(error)  # noqa: B904  # it is the same error


def make_act(kind: str, *values: Any, **options: Any) -> Act:
    """An act by its name. Raises ValueError and TypeError, without the frames of the checks."""
    try:
        return rule_checks.make_act(kind, *values, **options)
    except (TypeError, ValueError) as error:
        raise brief(error)  # noqa: B904  # it is the same error
