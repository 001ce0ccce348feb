"""The rules in force, as one interceptor of the brokers for which they are made.

Of several rules that mean a request, delays, holds and throttles add up, and the newest rule decides on the answer
(`faulted_request.py`; of errors for single topics or partitions each fails its own entries). While no rule is set, no
broker has the interceptor.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InvalidArgument, InvalidState
from ...protocol.messages import MODULES, message_name
from ...storage.filesystem.live_faults import CHANGES, SYNCS, fail_operations, is_failing
from .active_rule import ActiveRule
from .acts import Disk, Refuse, Silent, Slow, SlowFsync, WrongCertificate
from .faulted_request import FaultedRequest
from .matching import Asked
from .prefilter import Look, Screen
from .rule import EVERY_API, Rule, When
from .rule_checks import Possible, api_key_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from ...protocol.schema import Request, Response
    from ..api.interception import Exchange, Serve
    from ..api.request_context import Context
    from ..network.connection import Connection
    from ..network.listeners import Listener
    from ..security.tls import Verdict
    from .faulted_broker import FaultedBroker, FaultedServices

# --- connections


class _NewConnection:
    """What the conditions of a rule may ask of a connection that has sent nothing yet."""

    client_id = None

    def __init__(self, services: FaultedServices, connection: Connection) -> None:
        self.services = services
        self.connection = connection


def gate_of(services: FaultedServices, rules: Sequence[ActiveRule]) -> Callable[[Connection], str | None]:
    """The function that the server asks about each new connection; the newest rule comes first."""

    def gate(connection: Connection) -> str | None:
        context: Any = _NewConnection(services, connection)
        deciding = _deciding(rules, Asked("connect", 0, context, None))
        if deciding is None:
            return None
        if isinstance(deciding.rule.do[0], Refuse):
            connection.reset()
            return f"fault rule {deciding.rule.name!r}"
        deciding.when_removed.append(_silence(connection))
        return None

    return gate


class _Handshaking:
    """What the conditions of a rule may ask of a connection that begins a TLS handshake."""

    client_id = None
    peer = ("", -1)  # which is not yet known; brokers, at port 0, use no TLS among each other

    def __init__(self, services: FaultedServices, listener: Listener) -> None:
        self.services = services
        self.listener = listener
        self.connection = self


def handshake_gate_of(services: FaultedServices, rules: Sequence[ActiveRule]) -> Callable[[Listener], Verdict | None]:
    """The function that the server asks about each TLS handshake; the newest rule comes first."""
    from ..security.tls import Verdict, untrusted_context  # few brokers have TLS

    wrong: list[ssl.SSLContext] = []

    def gate(listener: Listener) -> Verdict | None:
        context: Any = _Handshaking(services, listener)
        deciding = _deciding(rules, Asked("tls", 0, context, None))
        if deciding is None:
            return None
        (act,) = deciding.rule.do
        if isinstance(act, WrongCertificate) and not wrong:
            wrong.append(untrusted_context(listener.host))
        name = f"fault rule {deciding.rule.name!r}"
        return Verdict(name, isinstance(act, Silent), wrong[0] if isinstance(act, WrongCertificate) else None)

    return gate


def _deciding(rules: Sequence[ActiveRule], asked: Asked) -> ActiveRule | None:
    """The newest rule that takes this, which comes first and acts; older ones that take it count it, too."""
    taken = [active for active in rules if active.takes(asked)]
    if not taken:
        return None
    taken[0].acted()
    return taken[0]


def _silence(connection: Connection) -> Callable[[], None]:
    """Serve no request of a connection. Returns the function that ends this."""
    silence: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    connection.in_service = connection.waiting = silence

    def end() -> None:
        if connection.in_service is silence:
            connection.in_service = connection.waiting = None
            silence.cancel()
            connection.serve()

    return end


# --- disks


_ERRORS = {"full": errno.ENOSPC, "fail": errno.EIO, "fail_fsync": errno.EIO, "read_only": errno.EROFS}
_GROWS = frozenset({"append", "write_at", "create", "make_directory", "link"})
"""Operations that need room."""


def place_disk_faults(broker: FaultedBroker, rules: Sequence[ActiveRule]) -> None:
    """Have the file system of a broker ask these rules, the newest first; without rules it asks nothing any more."""
    filesystem = broker.logs.filesystem
    node_id = broker.services.node_id
    meant = [active for active in rules if active.rule.when.broker in (None, node_id)]
    if meant or is_failing(filesystem):
        fail_operations(filesystem, _before(meant) if meant else None)


def _before(rules: Sequence[ActiveRule]) -> Callable[[str, str], None]:
    """What happens before an operation on a path: it may wait, and raise OSError."""

    def before(operation: str, path: str) -> None:
        error = 0
        for active in rules:
            (act,) = active.rule.do
            if not _means_operation(act, operation) or not _means_path(active, path):
                continue
            if isinstance(act, Slow):
                if active.takes_operation():
                    time.sleep(act.ms / 1000)  # as the disk would: the caller waits, on whichever thread it runs
            elif not error and active.takes_operation():
                assert isinstance(act, Disk)
                error = _ERRORS[act.fault]
        if error:
            raise OSError(error, os.strerror(error), path)

    return before


def _means_operation(act: object, operation: str) -> bool:
    if isinstance(act, Slow):
        return not isinstance(act, SlowFsync) or operation in SYNCS
    assert isinstance(act, Disk)
    if act.fault == "full":
        return operation in _GROWS
    if act.fault == "fail_fsync":
        return operation in SYNCS
    return act.fault == "fail" or operation in CHANGES


def _means_path(active: ActiveRule, path: str) -> bool:
    """Whether a rule means a path: that of a file in a partition's directory, where the rule has a topic."""
    when = active.rule.when
    if when.topic is None and when.partition is None:
        return True
    directory = os.path.basename(os.path.dirname(path))
    topic, _, number = directory.rpartition("-")
    if not topic or not number.isdigit():
        return False
    return active.means_entry is not None and active.means_entry(topic, int(number))


class ActiveRules:
    """The rules in force, for one broker or for those of a cluster, on one event loop."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        """Of every rule that has none of its own."""
        self.unfinished: set[Any] = set()
        """Rules that were begun and do not say what they do: they are not in force."""
        self._brokers: list[FaultedBroker] = []
        self._rules: dict[str, ActiveRule] = {}
        """By name, in the order in which they were made."""
        self._by_api: dict[int, tuple[ActiveRule, ...]] = {}
        """The rules about each API, the newest first."""
        self._screens: dict[int, Screen] = {}
        """The look at the requests of each API, which lets pass what no rule is about."""
        self._enders: dict[int, list[ActiveRule]] = {}
        """By the API whose request ends them."""
        self._answered_before: dict[tuple[int, int], int] = {}
        """Requests that were answered before there was a rule, by broker and API key."""

    # --- brokers

    def attach(self, broker: FaultedBroker) -> None:
        """Have the rules act on this broker, too."""
        self._brokers = [known for known in self._brokers if not known.server.is_closed]
        if broker not in self._brokers:
            self._brokers.append(broker)
            broker.on_reset.append(self.clear)
            self._install()

    def possible(self) -> Possible:
        """What the brokers can do, for the checks of a rule."""
        if not self._brokers:
            raise InvalidState("no broker runs")
        return Possible(self._brokers[0].server.handlers, [broker.services.node_id for broker in self._brokers])

    def _now_ms(self) -> int:
        """The time in which rules end and delays pass: that of time-outs."""
        return self._brokers[-1].services.clock.liveness_ms()

    # --- rules

    @property
    def rules(self) -> Collection[ActiveRule]:
        """All rules, in the order in which they were made."""
        return self._rules.values()

    def arm(self, rules: Iterable[Rule], *, replaces: bool = False) -> list[ActiveRule]:
        """Put rules in force, all at once. Raises ValueError for a name that is taken, unless `replaces`."""
        rules = list(rules)
        for rule in rules:
            if rule.name in self._rules and not replaces:
                raise InvalidArgument(f"there is a fault rule {rule.name!r} already: give this one another name")
        if not self._rules:
            self._answered_before = self._answered()
        made = []
        for rule in rules:
            if rule.name in self._rules:
                self._rules.pop(rule.name).remove()
            active = self._rules[rule.name] = ActiveRule(rule, seed=self.seed, now_ms=self._now_ms)
            made.append(active)
        self._install()
        return made

    def free_name(self, name: str) -> str:
        """This name, with a number behind it if it is taken."""
        number, free = 1, name
        while free in self._rules:
            number += 1
            free = f"{name} #{number}"
        return free

    def remove(self, name: str) -> None:
        """Take a rule back, and let what it holds go on. Raises KeyError."""
        self._rules.pop(name).remove()
        self._install()

    def clear(self) -> None:
        """Take all rules back, and let what they hold go on."""
        for active in self._rules.values():
            active.remove()
        self._rules.clear()
        self.unfinished.clear()
        self._install()

    def _install(self) -> None:
        """Index the rules, and put the interceptor and the gates where there is a rule for them."""
        by_api: dict[int, list[ActiveRule]] = {}
        self._enders = {}
        newest_first = [*reversed(self._rules.values())]
        for active in newest_first:
            when = active.rule.when
            if when.target == "request":
                for api_key in MODULES if when.api == (EVERY_API,) else map(api_key_of, when.api):
                    by_api.setdefault(api_key, []).append(active)
            if active.counts.until is not None:
                self._enders.setdefault(api_key_of(active.counts.until), []).append(active)
        self._by_api = {api_key: tuple(rules) for api_key, rules in by_api.items()}
        self._set_screens()
        concern = self._concern()
        for broker in self._brokers:
            if self._by_api or self._enders:
                broker.services.intercept(self.intercept, concern)
            else:
                broker.services.intercept_no_more(self.intercept)
            self._install_gates(broker, newest_first)

    def _set_screens(self) -> None:
        self._screens = {}
        for api_key in {*self._by_api, *self._enders}:
            name = message_name(MODULES[api_key])
            rules = self._by_api.get(api_key, ())
            # What ends a rule is looked at, whatever it is.
            about = [*(active.rule.when for active in rules), *([When((name,))] if api_key in self._enders else [])]
            screen = self._screens[api_key] = Screen(name, about)
            for active in rules:
                active.screens.append(screen)

    def _install_gates(self, broker: FaultedBroker, newest_first: list[ActiveRule]) -> None:
        connecting = [active for active in newest_first if active.rule.when.target == "connect"]
        broker.server.gate = gate_of(broker.services, connecting) if connecting else None
        handshaking = [active for active in newest_first if active.rule.when.target == "tls"]
        broker.server.handshake_gate = handshake_gate_of(broker.services, handshaking) if handshaking else None
        if broker.logs is not None:
            about_registry = (active for active in newest_first if active.rule.when.target == "registry")
            broker.services.registry_rules = tuple(about_registry)
            place_disk_faults(broker, [active for active in newest_first if active.rule.when.target == "disk"])

    def nothing_came(self) -> str:
        """What came, for a rule that met nothing: "2 Metadata, 1 ApiVersions came"."""
        came: Counter[int] = Counter()
        for (node_id, api_key), count in self._answered().items():
            came[api_key] += count - self._answered_before.get((node_id, api_key), 0)
        texts = [f"{count} {message_name(MODULES[api_key])}" for api_key, count in came.most_common(4) if count]
        return f"{', '.join(texts)} came" if texts else "no request came at all"

    def _answered(self) -> dict[tuple[int, int], int]:
        """Requests that the brokers have answered, by broker and API key."""
        return {
            (broker.services.node_id, api_key): counted.count
            for broker in self._brokers
            for api_key, counted in broker.services.metrics.requests.items()
        }

    # --- requests

    def _concern(self) -> Look:
        """The function that says whether a rule may have to do with a request; else that goes its own way."""
        look_of = {api_key: screen.look() for api_key, screen in self._screens.items()}.get

        def concern(request: Request, context: Context) -> bool:
            look = look_of(request.api_key)
            return look is not None and look(request, context)

        return concern

    def intercept(self, exchange: Exchange, serve: Serve) -> Coroutine[Any, Any, Response | None]:
        """The interceptor: serve a request as the rules about its API say."""
        api_key = exchange.header.api_key
        if api_key in self._enders:
            for active in self._enders.pop(api_key):
                active.counts.end()
        rules = self._by_api.get(api_key)
        if rules is not None:
            asked = Asked(exchange.request.name, exchange.header.api_version, exchange.context, exchange.request)
            taken = [active for active in rules if active.takes(asked)]
            if taken:
                return FaultedRequest(exchange, serve, taken).answer()
        return serve()  # type: ignore[return-value]  # a handler's coroutine
