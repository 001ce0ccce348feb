"""Which requests a fault rule means, and how near the others came to it. `active_rule.py` counts them."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import InvalidArgument
from ..api.key_fields import KeyFields, KeyPartition, Names, key_fields
from .rule import Rule, When

if TYPE_CHECKING:
    from ..api.request_context import Context
    from ..services import Services
    from ..share_state.persister import SharePartitionKey

log = logging.getLogger("kmini.faults")

_REASONS = 50
"""Different near misses that a rule remembers at most."""
_SHOWN = 3
"""Names in a near miss at most."""


def share_session_keys(request: Any, services: Services) -> Iterator[SharePartitionKey]:
    """The partitions that a ShareFetch reads because its session does (KIP-932)."""
    if request.share_session_epoch > 0:
        forgotten = {(topic.topic_id, number) for topic in request.forgotten_topics_data for number in topic.partitions}
        for key in services.share_sessions.keys_of(request.group_id or "", request.member_id or ""):
            if (key.topic_id, key.partition) not in forgotten:
                yield key


class Asked:
    """A request, or a new connection, as the conditions of rules see it; a `where` function gets it, too."""

    def __init__(self, api: str, version: int, context: Context, request: Any) -> None:
        self.api = api
        self.version = version
        self.client_id = context.client_id or ""
        self.request = request
        """The decoded request, with its fields as the message has them; None for a new connection."""
        self._context = context

    @cached_property
    def key_fields(self) -> KeyFields:
        """Its topics and partitions, groups, members, transactional ids and producers."""
        if self.request is None:
            return KeyFields()
        names = Names.of(self._context.services)
        found = key_fields(self.request, names)
        if self.request.name != "ShareFetch":
            return found
        named = {(one.topic, one.partition): one for one in found.partitions}
        for key in share_session_keys(self.request, self._context.services):
            topic = names.topic_of(key.topic_id)
            if topic is not None:
                named.setdefault((topic, key.partition), KeyPartition(topic, key.partition))
        return found._replace(partitions=tuple(named.values()))

    @property
    def topics(self) -> tuple[str, ...]:
        return self.key_fields.topics

    @property
    def asks_for_all(self) -> bool:
        """Whether it names no topic because it is about all of them."""
        if self.api == "Metadata" and self.version == 0:
            return not self.request.topics
        if any(group.topics is None for group in getattr(self.request, "groups", ()) if hasattr(group, "topics")):
            return True
        return getattr(self.request, "topics", ()) is None

    @property
    def groups(self) -> tuple[str, ...]:
        return self.key_fields.groups

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        return self.key_fields.transactional_ids

    @property
    def broker(self) -> int:
        """The number of the broker that is asked."""
        return self._context.services.node_id

    @property
    def listener(self) -> str:
        return self._context.connection.listener.name

    @property
    def principal(self) -> str:
        return str(self._context.connection.principal)

    @property
    def connection(self) -> str:
        """Host and port of the client."""
        host, port = self._context.connection.peer
        return f"{host}:{port}"

    method = ""
    """Of HTTP, where the schema registry is asked (`registry_rules.py`)."""
    subject = ""

    @property
    def is_of_broker(self) -> bool:
        """Whether another broker of this process asks: its connections come from port 0."""
        return self._context.connection.peer[1] == 0


def pattern(text: str) -> Callable[[str], bool]:
    """Whether a name fits a pattern, in which `*` stands for any characters and `?` for one."""
    if not {"*", "?"} & set(text):
        return text.__eq__
    expression = re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in text), re.DOTALL)
    return lambda name: expression.fullmatch(name) is not None


_RANGE = re.compile(r"(<=|>=|<|>|)(\d+)|(\d+)-(\d+)")


def version_range(text: str) -> tuple[int, int]:
    """The lowest and the highest version that a text means: "7", "<9", ">=4", "3-5". Raises ValueError."""
    found = _RANGE.fullmatch(text.replace(" ", ""))
    if found is None:
        raise InvalidArgument(f'version={text!r}: must be a version or a range, as "7", "<9", ">=4" or "3-5"')
    sign, number, low, high = found.groups()
    if low is not None:
        return int(low), int(high)
    at = int(number)
    newest = 1 << 15
    return {"": (at, at), "<": (0, at - 1), "<=": (0, at), ">": (at + 1, newest), ">=": (at, newest)}[sign]


class Condition(NamedTuple):
    """One condition of a rule."""

    says: str
    """As in a message: "topic 'orders'"."""
    is_met: Callable[[Asked], bool]
    was: Callable[[Asked], str]
    """What a request has in its place."""


def _names(found: Iterable[object]) -> str:
    texts = [repr(one) for one in dict.fromkeys(found)]
    return " and ".join(texts[:_SHOWN]) + (f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "") or "none"


def conditions_of(when: When, failed: Callable[[Exception], None]) -> list[Condition]:
    """The conditions of a rule beside its API. `failed` is told what a `where` function raises."""
    found: list[Condition] = []
    if when.topic is not None or when.partition is not None:
        found.append(_of_partitions(when))
    for name, text in (("group", when.group), ("transactional_id", when.transactional_id)):
        if text is not None:
            found.append(_of_any(name, text, f"{name}s"))
    for name in ("client_id", "listener", "principal", "connection", "method", "subject"):
        text = getattr(when, name)
        if text is not None:
            found.append(_of_one(name, text))
    if when.version is not None:
        low, high = version_range(when.version)
        found.append(
            Condition(
                f"version {when.version!r}",
                lambda asked: low <= asked.version <= high,
                lambda asked: f"version was {asked.version}",
            )
        )
    if when.broker is not None:
        found.append(
            Condition(
                f"broker {when.broker}",
                lambda asked: asked.broker == when.broker,
                lambda asked: f"broker was {asked.broker}",
            )
        )
    if when.where is not None:
        found.append(_of_function(when.where, failed))
    return found


def means_entry(when: When) -> Callable[[str | None, int | None], bool] | None:
    """Whether a rule means an entry of this topic and partition; None if it names neither."""
    if when.topic is None and when.partition is None:
        return None
    fits = pattern(when.topic) if when.topic is not None else None

    def means(topic: str | None, partition: int | None) -> bool:
        if fits is not None and (topic is None or not fits(topic)):
            return False
        return when.partition is None or partition is None or partition == when.partition

    return means


def _of_partitions(when: When) -> Condition:
    means = means_entry(when)
    assert means is not None
    says = " and ".join(
        text
        for text in (
            "" if when.topic is None else f"topic {when.topic!r}",
            "" if when.partition is None else f"partition {when.partition}",
        )
        if text
    )

    def was(asked: Asked) -> str:
        topics = asked.topics
        if when.topic is not None and not any(map(pattern(when.topic), topics)):
            return f"topic was {_names(topics)}"
        return f"partition was {_names(one.partition for one in asked.key_fields.partitions)}"

    def is_met(asked: Asked) -> bool:
        partitions = asked.key_fields.partitions
        return any(means(one[0], one[1]) for one in partitions) or (not partitions and asked.asks_for_all)

    return Condition(says, is_met, was)


def _of_any(name: str, text: str, attribute: str) -> Condition:
    fits = pattern(text)
    return Condition(
        f"{name} {text!r}",
        lambda asked: any(map(fits, getattr(asked, attribute))),
        lambda asked: f"{name} was {_names(getattr(asked, attribute))}",
    )


def _of_one(name: str, text: str) -> Condition:
    fits = pattern(text)
    return Condition(
        f"{name} {text!r}",
        lambda asked: fits(getattr(asked, name)),
        lambda asked: f"{name} was {getattr(asked, name)!r}",
    )


def _of_function(where: Callable[[Asked], bool], failed: Callable[[Exception], None]) -> Condition:
    def is_met(asked: Asked) -> bool:
        try:
            return bool(where(asked))
        except Exception as error:
            failed(error)
            return False

    return Condition("where ...", is_met, lambda asked: "where returned False")


class Matcher:
    """Decides whether a rule means a request, and remembers how near those came that it does not."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._conditions = conditions_of(rule.when, self._where_failed)
        self._means_brokers = rule.when.client_id is not None or rule.when.connection is not None
        self._misses: Counter[tuple[int, str]] = Counter()
        """How often requests of its API missed it: by the number of conditions that were not met, and the reason."""
        self.came = 0
        """Requests of its API that it does not mean."""
        self.failure: Exception | None = None
        """What the `where` function raised first."""

    def means(self, asked: Asked) -> bool:
        """Whether the rule means this request of its API."""
        if asked.is_of_broker and not self._means_brokers:
            return False
        unmet = [condition for condition in self._conditions if not condition.is_met(asked)]
        if not unmet:
            return True
        self.came += 1
        if len(self._misses) < _REASONS:
            says = " and ".join(condition.says for condition in unmet)
            was = ", ".join(condition.was(asked) for condition in unmet)
            self._misses[len(unmet), f"{was}, the rule says {says}"] += 1
        return False

    def nearest(self, passed: int = 0) -> str:
        """What came nearest to the rule: "14 Produce requests came; nearest, 13 of them: topic was 'order', ..."; empty
        if no request of its API came."""
        if not self.came:
            return ""
        (_, reason), count = min(self._misses.items(), key=lambda miss: (miss[0][0], -miss[1]))
        api = "/".join(self._rule.when.api)
        named = {"connect": "connections", "tls": "TLS handshakes"}
        what = named.get(self._rule.when.target, f"{api} requests")
        total = self.came + passed
        came = f"{total} {what if total > 1 else what[:-1]} came"
        those = f"the first {self.came}" if passed else "them"
        return f"{came}; nearest, {count} of {those}: {reason}" if total > 1 else f"{came}: {reason}"

    def _where_failed(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            log.error("the where function of fault rule %r failed", self._rule.name, exc_info=error)
