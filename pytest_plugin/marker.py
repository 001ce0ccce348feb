"""The marker `kafka`: the broker that a test asks for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from kmini.pytest_plugin.options import SCOPES, Scope

DESCRIPTION = (
    "kafka(topics=, config=, brokers=, as_version=, registry=, tls=, sasl=, users=, acls=, scope=): the broker of a "
    "test: topics that exist when "
    "it starts (names, or a mapping to numbers of partitions), settings by Kafka's names, the number of brokers of "
    'kafka_cluster, the release of Apache Kafka whose requests it serves ("3.9"), whether it has a schema registry, '
    'how clients are secured (tls="auto", sasl="PLAIN", as of Broker), '
    "and the tests that share it: session, module, or function for one test alone"
)


SECURITY = ("tls", "sasl", "users", "acls")


class Wanted(NamedTuple):
    """What the markers of a test ask for; the marker next to the test wins, and settings and topics add up."""

    topics: Mapping[str, Any] = {}
    """Numbers of partitions, or mappings with `partitions`, `replication_factor` and `config`, by topic."""
    config: Mapping[str, Any] = {}
    brokers: int | None = None
    as_version: str | None = None
    registry: bool | None = None
    tls: str | None = None
    sasl: str | None = None
    users: Mapping[str, str] | None = None
    acls: Sequence[str] | None = None
    scope: Scope | None = None

    @property
    def needs_own_settings(self) -> bool:
        """Whether a broker that was started for other tests does not do."""
        return bool(self.config) or self.brokers is not None or bool(self.arguments)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `Broker` that the marker has by the same name, and that are told as they are."""
        names = ("as_version", "registry", *SECURITY)
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def security(self) -> str:
        """What is asked for of security, in the words of the marker; empty for nothing."""
        return ", ".join(f"{name}={value!r}" for name, value in self.arguments.items() if name in SECURITY)


def wanted(item: pytest.Item) -> Wanted:
    """Read the markers of a test. Raises pytest.UsageError."""
    found = Wanted()
    for mark in reversed([*item.iter_markers("kafka")]):
        if mark.args:
            raise _wrong(item, f"{mark.args[0]!r} has no name; its arguments are {', '.join(Wanted._fields)}")
        for name, value in mark.kwargs.items():
            if name not in Wanted._fields:
                raise _wrong(item, f"there is no argument {name}; there are {', '.join(Wanted._fields)}")
            if value is not None:
                found = found._replace(**{name: _checked(item, name, value, getattr(found, name))})
    return found


def _checked(item: pytest.Item, name: str, value: Any, outer: Any) -> Any:
    """Check an argument; add it to that of the marker further out."""
    if name == "topics":
        if not isinstance(value, Mapping):
            if isinstance(value, str | bytes) or not isinstance(value, Iterable):
                raise _wrong(item, f"topics={value!r}: names of topics, or a mapping to partitions, were expected")
            value = {topic: {} for topic in value}
        return {**outer, **value}
    if name == "config":
        if not isinstance(value, Mapping):
            raise _wrong(item, f"config={value!r}: a mapping of Kafka's setting names to values was expected")
        return {**outer, **value}
    if name == "scope" and value not in SCOPES:
        raise _wrong(item, f"scope={value!r}: session, module or function was expected")
    if name == "brokers" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise _wrong(item, f"brokers={value!r}: a number of brokers, 1 or more, was expected")
    if name == "registry" and not isinstance(value, bool):
        raise _wrong(item, f"registry={value!r}: True or False was expected")
    if name == "as_version" and not isinstance(value, str):
        raise _wrong(item, f'as_version={value!r}: a release as str was expected, as "3.9"')
    return value


def _wrong(item: pytest.Item, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"@pytest.mark.kafka of {item.nodeid}: {why}")


def check(item: pytest.Item) -> None:
    """Refuse a test that asks for a broker that cannot be had. Raises pytest.UsageError in one sentence."""
    asks = wanted(item)
    if asks.brokers is not None and asks.brokers > 1 and "kafka_broker" in getattr(item, "fixturenames", ()):
        raise _wrong(item, f"kafka_broker is one broker; brokers={asks.brokers} needs the fixture kafka_cluster")
    if asks.topics or asks.needs_own_settings:
        from kmini.pytest_plugin.starting import Spec  # the broker is imported where tests ask for one

        try:
            Spec.of("cluster" if (asks.brokers or 1) > 1 else "broker", asks).make()
        except (TypeError, ValueError, ImportError) as error:
            raise _wrong(item, str(error)) from None
