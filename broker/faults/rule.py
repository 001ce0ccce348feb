"""A fault rule as data: which requests it means, which of these it acts on, and what it does.

The same as JSON: `{"name": ..., "when": {...}, "which": {...}, "do": [...]}`. `Rule.to_json` writes it and
`rule_checks.py` reads it, which refuses what can never match or act.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InvalidArgument
from ..journal.registry_requests import REGISTRY
from .acts import Act, Target

if TYPE_CHECKING:
    from .matching import Asked

CONNECT = "connect"
"""In place of an API: new connections."""
TLS = "tls"
"""In place of an API: TLS handshakes."""
DISK = "disk"
"""In place of an API: operations on files of the broker."""
EVERY_API = "*"


@dataclass(frozen=True)
class When:
    """The requests that a rule means: those that meet every condition given. Names may have `*` and `?`."""

    api: tuple[str, ...]
    """Kafka's names of APIs; or "*", "connect", "tls", "disk" or "registry"."""
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    """Without one, requests of other brokers are not meant: their followers fetch, too."""
    version: str | None = None
    """Versions of the request: "7", "<9", ">=4", "3-5"."""
    broker: int | None = None
    """The number of the broker that is asked."""
    listener: str | None = None
    principal: str | None = None
    connection: str | None = None
    """Host and port of the client, as "127.0.0.1:40112"."""
    method: str | None = None
    """Of HTTP, as "POST": of a request to the schema registry."""
    subject: str | None = None
    """The subject that the path of such a request names."""
    where: Callable[[Asked], bool] | None = None
    """A Python function that looks at the request."""

    @property
    def target(self) -> Target:
        if self.api == (CONNECT,):
            return "connect"
        if self.api == (TLS,):
            return "tls"
        if self.api == (REGISTRY,):
            return "registry"
        return "disk" if self.api == (DISK,) else "request"

    def to_json(self) -> dict[str, Any]:
        """The conditions that are given."""
        if self.where is not None:
            raise InvalidArgument("a rule with a Python function has no JSON: respond and where are for Python only")
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value is not None} | {"api": [*self.api]}


@dataclass(frozen=True)
class Which:
    """Of the requests that a rule means, those on which it acts; without a word all of them."""

    skip: int = 0
    """The first ones that pass."""
    times: int | None = None
    """Acts of the rule at most."""
    on_call: tuple[int, ...] = ()
    """The n-th ones, from 1, after those that are skipped."""
    every: int = 1
    """Every n-th one, after those that are skipped."""
    probability: float | None = None
    seed: int | None = None
    """Of the probability; the seed of all rules if it is not given."""
    for_ms: int | None = None
    """Milliseconds after which the rule ends, in liveness time."""
    until: str | None = None
    """The rule ends when a request of this API arrives."""

    def to_json(self) -> dict[str, Any]:
        """The parts that differ from "all"."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = {name: given[name] for name in given if given[name] != getattr(ALL, name)}
        if "on_call" in shown:
            shown["on_call"] = [*self.on_call]
        if "for_ms" in shown:
            shown["for"] = shown.pop("for_ms")
        return shown


ALL = Which()


@dataclass(frozen=True)
class Rule:
    """One fault rule."""

    name: str
    when: When
    which: Which
    do: tuple[Act, ...]

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON. Raises ValueError for a rule with a Python function."""
        shown: dict[str, Any] = {"name": self.name, "when": self.when.to_json()}
        if self.which != ALL:
            shown["which"] = self.which.to_json()
        shown["do"] = [act.to_json() for act in self.do]
        return shown

    def __str__(self) -> str:
        conditions = [f"{field.name}={getattr(self.when, field.name)!r}" for field in fields(self.when)[1:]]
        given = [text for text in conditions if not text.endswith("=None")]
        return f"{self.name} ({', '.join(['/'.join(self.when.api), *given])}: {', '.join(act.kind for act in self.do)})"
