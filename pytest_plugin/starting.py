"""What a broker of a test is started with, put together from the ini file, `kafka_options` and the marker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import pytest

from kmini import Broker, Cluster
from kmini.broker.settings.broker_config import ConfigError
from kmini.pytest_plugin.marker import Wanted

Kind = Literal["broker", "cluster"]

DEFAULT_BROKERS = 3
"""Brokers of `kafka_cluster` unless the marker says otherwise."""


class Spec(NamedTuple):
    """A broker or a cluster that can be made. Equal ones may be shared."""

    kind: Kind
    arguments: dict[str, Any]
    """Keyword arguments of `Broker` or `Cluster`."""

    @classmethod
    def of(
        cls,
        kind: Kind,
        wanted: Wanted,
        config: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Spec:
        """Put the arguments together: those of the marker (`wanted`) win over `options`, the dict of `kafka_options`,
        and these over `config`, which the ini file has. A journal is kept unless they say otherwise."""
        arguments = {**(options or {}), **wanted.arguments}
        settings = {**(config or {}), **(arguments.pop("config", None) or {}), **wanted.config}
        if kind == "cluster":
            arguments["brokers"] = wanted.brokers or arguments.get("brokers", DEFAULT_BROKERS)
        else:
            arguments.pop("brokers", None)
        topics = {**topics_by_name(arguments.pop("topics", None)), **topics_by_name(wanted.topics)}
        return cls(kind, {"journal": True, **arguments, "config": settings, "topics": topics})

    def make(self) -> Broker | Cluster:
        """Make the broker or the cluster; it is not started yet. Raises TypeError, and ValueError for wrong
        settings."""
        try:
            return (Broker if self.kind == "broker" else Cluster)(**self.arguments)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def make_of_options(self) -> Broker | Cluster:
        """Make the broker from arguments whose marker was checked when tests were collected, so that only the fixture
        `kafka_options` and the ini file can be wrong. Raises pytest.UsageError."""
        try:
            return self.make()
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(f"the fixture kafka_options, or kafka_config in the ini file: {error}") from None


def topics_by_name(topics: Any) -> dict[str, Any]:
    """Topics as a mapping of names, from either form that `Broker` takes."""
    return dict(topics) if isinstance(topics, Mapping) else {name: {} for name in topics or ()}
