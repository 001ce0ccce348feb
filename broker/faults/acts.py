"""What a fault rule does to a request, a connection or the disk, as data. `faulted_request.py` does it to requests, and
`active_rules.py` to connections and the disk.

An act is made by its class or from JSON: an object whose first key is the name of the act, with its main value, beside
the options: `{"delay": "200ms", "jitter": "50ms"}`, `{"disconnect": true, "applied": true}`. Durations are kept in
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from ...protocol.errors import InvalidArgument
from .answer_bytes import OF_FETCH, Damage, damage_records, empty_records
from .rule_values import Check, at_least, duration, error_name, function, one_of, rate, record_errors, text
from .topology_answers import Means, leave_out_broker, name_leader

Place = Literal["before", "after"]
"""Whether an act stands before the request is served, or between that and the answer."""
Target = Literal["request", "connect", "tls", "disk", "registry"]
"""What a rule is about: requests, new connections, TLS handshakes, operations on files, or requests to the schema
registry."""

ACTS: dict[str, type[Act]] = {}
"""The acts by their names in JSON; a class of this module adds itself."""


@dataclass(frozen=True)
class Act:
    """One act. The first field is the main value of its JSON."""

    kind: ClassVar[str]
    targets: ClassVar[tuple[Target, ...]] = ("request",)
    is_terminal: ClassVar[bool] = True
    """Whether it decides on the answer: of several rules, the newest one's does. Acts that only take time add up."""
    checks: ClassVar[Mapping[str, Check]] = {}
    """The checks of its values, by field (`rule_values.py`); the other fields are flags."""

    def __init_subclass__(cls) -> None:
        ACTS[cls.kind] = cls

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs for which alone it is: those whose decoded answers it changes, by `change`, or whose requests its
        own rule serves. It acts where it finds something to change. Empty for an act on any API."""
        return ()

    def change(self, answer: Any, means: Means | None, topic_name: Callable[[bytes], str | None]) -> bool:
        """Change a decoded answer, in the entries that the rule means. Returns False where there is nothing to change:
        the rule has not acted then. `topic_name` gives the name of a topic id."""
        raise NotImplementedError(f"{self.kind} changes no decoded answer")

    def to_json(self) -> dict[str, Any]:
        """The act as JSON: what `acts_from_json` reads."""
        first, *rest = fields(self)
        return {self.kind: getattr(self, first.name)} | {
            field.name: getattr(self, field.name) for field in rest if getattr(self, field.name) != field.default
        }


@dataclass(frozen=True)
class Error(Act):
    """Answer an error code, at the level where the API has it; the schema registry's by its number. Nothing is applied,
    unless `applied`."""

    kind = "error"
    targets = ("request", "registry")
    checks: ClassVar = {"code": error_name, "message": text, "record_errors": record_errors}
    code: str
    applied: bool = False
    message: str | None = None
    """What the answer says beside the code."""
    record_errors: tuple[tuple[int, str], ...] = ()
    """The records of a produce that are at fault: the index in the batch, and what is wrong (KIP-467)."""

    def to_json(self) -> dict[str, Any]:
        shown = super().to_json()
        if self.record_errors:
            shown["record_errors"] = {str(index): reason for index, reason in self.record_errors}
        return shown


@dataclass(frozen=True)
class Respond(Act):
    """Answer what a Python function makes of the request and the answer that the broker would give."""

    kind = "respond"
    checks: ClassVar = {"function": function}
    function: Callable[[Any, Any], Any]

    def to_json(self) -> dict[str, Any]:
        raise InvalidArgument("a rule with a Python function has no JSON: respond and where are for Python only")


@dataclass(frozen=True)
class Delay(Act):
    """Wait, for `ms` plus a random part of `jitter_ms`."""

    kind = "delay"
    targets = ("request", "registry")
    is_terminal = False
    checks: ClassVar = {"ms": duration, "jitter": duration, "when": one_of(Place)}
    ms: int
    jitter: int = 0
    when: Place = "before"


@dataclass(frozen=True)
class Hold(Act):
    """Wait until the test releases it."""

    kind = "hold"
    targets = ("request", "registry")
    is_terminal = False
    checks: ClassVar = {"when": one_of(Place)}
    when: Place = "before"


@dataclass(frozen=True)
class Throttle(Act):
    """Have the answer ask the client to send nothing for this long, and serve nothing of the connection meanwhile."""

    kind = "throttle"
    is_terminal = False
    checks: ClassVar = {"ms": duration}
    ms: int


@dataclass(frozen=True)
class Drop(Act):
    """Never answer, and serve nothing more of this connection; `applied` serves the request first."""

    kind = "drop"
    targets = ("request", "registry")
    on: bool = True
    applied: bool = False


@dataclass(frozen=True)
class Disconnect(Act):
    """Close the connection without an answer; `applied` serves the request first, `rst` resets the connection."""

    kind = "disconnect"
    targets = ("request", "registry")
    on: bool = True
    applied: bool = False
    rst: bool = False


@dataclass(frozen=True)
class Truncate(Act):
    """Send so many bytes of the answer, its size field included, and close the connection."""

    kind = "truncate"
    checks: ClassVar = {"bytes": at_least(0)}
    bytes: int


@dataclass(frozen=True)
class Trickle(Act):
    """Send the answer slowly, at so many bytes a second."""

    kind = "trickle"
    checks: ClassVar = {"bytes_per_second": rate}
    bytes_per_second: int


@dataclass(frozen=True)
class Corrupt(Act):
    """Damage the answer: the CRC or the codec of the first batch of a fetch, its last batch cut in the middle; the
    correlation id; the size, which then is larger than any client takes; or the body as a whole."""

    kind = "corrupt"
    checks: ClassVar = {"what": one_of(Damage)}
    what: Damage = "crc"

    @property
    def apis(self) -> tuple[str, ...]:
        return ("Fetch",) if self.what in OF_FETCH else ()

    def change(self, answer: Any, means: Means | None, topic_name: Callable[[bytes], str | None]) -> bool:
        return damage_records(answer, self.what)


@dataclass(frozen=True)
class NoRecords(Act):
    """Answer a fetch as if there were no records."""

    kind = "no_records"
    on: bool = True

    @property
    def apis(self) -> tuple[str, ...]:
        return ("Fetch",)

    def change(self, answer: Any, means: Means | None, topic_name: Callable[[bytes], str | None]) -> bool:
        return empty_records(answer, means, topic_name)


@dataclass(frozen=True)
class Leader(Act):
    """Answer in Metadata that this broker leads the partition, -1 for none, and this leader epoch."""

    kind = "leader"
    checks: ClassVar = {"broker": at_least(-1), "epoch": at_least(0)}
    broker: int
    epoch: int | None = None
    """None answers the epoch that the partition has."""

    @property
    def apis(self) -> tuple[str, ...]:
        return ("Metadata",)

    def change(self, answer: Any, means: Means | None, topic_name: Callable[[bytes], str | None]) -> bool:
        return name_leader(answer, self.broker, self.epoch, means)


@dataclass(frozen=True)
class WithoutBroker(Act):
    """Answer as if the cluster did not have a broker: partitions that it leads have no leader."""

    kind = "without_broker"
    checks: ClassVar = {"broker": at_least(0)}
    broker: int

    @property
    def apis(self) -> tuple[str, ...]:
        return ("Metadata", "DescribeCluster")

    def change(self, answer: Any, means: Means | None, topic_name: Callable[[bytes], str | None]) -> bool:
        return leave_out_broker(answer, self.broker)


@dataclass(frozen=True)
class ExpiredToken(Act):
    """Refuse the token of a login by OAUTHBEARER as one that has expired. Logins by other mechanisms are served."""

    kind = "expired_token"
    on: bool = True

    @property
    def apis(self) -> tuple[str, ...]:
        return ("SaslAuthenticate",)


@dataclass(frozen=True)
class Refuse(Act):
    """Reset new connections as soon as they are made, or when they begin a TLS handshake."""

    kind = "refuse"
    targets = ("connect", "tls")
    on: bool = True


@dataclass(frozen=True)
class Silent(Act):
    """Accept a connection, or a request, and say nothing, until the rule is removed; of a TLS handshake, until its time
    is over."""

    kind = "silent"
    targets = ("request", "connect", "tls", "registry")
    on: bool = True


@dataclass(frozen=True)
class WrongCertificate(Act):
    """Show a certificate that is good for the host, of an authority that no client trusts. Needs the extra `tls`."""

    kind = "wrong_certificate"
    targets = ("tls",)
    on: bool = True


DiskFault = Literal["full", "fail", "fail_fsync", "read_only"]


@dataclass(frozen=True)
class Disk(Act):
    """Let operations on files fail as a full disk, a broken one, or a read-only one does; `fail_fsync` fails syncs."""

    kind = "disk"
    targets = ("disk",)
    checks: ClassVar = {"fault": one_of(DiskFault)}
    fault: DiskFault


@dataclass(frozen=True)
class Slow(Act):
    """Let each operation on a file take this much longer."""

    kind = "slow"
    targets = ("disk",)
    is_terminal = False
    checks: ClassVar = {"ms": duration}
    ms: int


@dataclass(frozen=True)
class SlowFsync(Slow):
    """Let each sync of a file take this much longer."""

    kind = "slow_fsync"
