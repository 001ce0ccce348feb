"""The broker inside a program: `with Broker() as broker:` blocks, `async with Broker() as broker:` awaits.

The operations are written once (`shared_operations.py`, `operations.py`); `Broker` has them as blocking methods and
`AsyncBroker` as methods to await (`handle.py`), with the handles `topic(...)`, `clock` and more (`parts.py`).
"""

import os
import time
from typing import Literal

from kmini.broker.settings.broker_config import BrokerConfig
from kmini.testkit import argument_checks
from kmini.testkit.argument_checks import Config, Topics
from kmini.testkit.embedded_registry import embedded_registry
from kmini.testkit.handle import method
from kmini.testkit.host import AsyncHost, Host
from kmini.testkit.lifecycle import BrokerLifecycle
from kmini.testkit.operations import Operations
from kmini.testkit.parts import AsyncParts, Parts, new_journal

__all__ = ["AsyncBroker", "Broker"]


class BrokerMethods:
    """The methods of a broker, beside those it shares with a cluster (`parts.py`)."""

    brokers = method(Operations.brokers)
    create_topic = method(Operations.create_topic)
    offsets = method(Operations.offsets)
    metrics_text = method(Operations.metrics_text)
    pause = method(Operations.pause)
    reconnect = method(Operations.reconnect)


class Broker(Host[Operations, "AsyncBroker"], BrokerMethods, Parts):
    """A broker on its own port, with a private data directory that is removed at the end.

    `port` 0 takes any free port. `config` holds settings by Kafka's names ("auto.create.topics.enable": "false").
    `topics` are created before the broker is ready: names, or a mapping of names to numbers of partitions or to
    mappings with `partitions`, `replication_factor` and `config`. With `data_dir` the data stay there. `as_version`
    ("2.8", "3.9", "4.0" or "4.3") serves the requests and versions of that release of Apache Kafka and no others. With
    `timestamps="append"` records carry the time of this broker, which tests move (LogAppendTime), unless a topic says
    otherwise; by default they carry the producer's time. With `journal` the broker keeps its last requests, for
    `requests`. With `registry` a schema registry is served at `registry_url`, on `registry_port` or any free one (extra
    "registry"). Raises ConfigError, TypeError, ValueError, and ImportError where the extra is not installed.

    >>> with Broker(topics={"orders": 3}, config={"log.retention.hours": 24}) as broker:
    ...     broker.produce("orders", b"placed", key=b"42")
    ...     broker.bootstrap_servers.partition(":")[0]
    0
    '127.0.0.1'
    """

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        config: Config | None = None,
        topics: Topics | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        as_version: str | None = None,
        timestamps: Literal["create", "append"] = "create",
        journal: bool = False,
        registry: bool = False,
        registry_port: int = 0,
    ) -> None:
        super().__init__("broker", argument_checks.directory("data_dir", data_dir))
        argument_checks.text("host", host, "the name or address of an interface as str")
        argument_checks.integer("port", port, "a port, 0 for any free one", 0, 65_535)
        listeners = {"listeners": f"PLAINTEXT://{host}:{port}"}
        options = argument_checks.as_settings(as_version, timestamps)
        new_topics = argument_checks.topics("topics", topics)
        self._lifecycle = BrokerLifecycle(
            BrokerConfig.parse({**listeners, **options, **argument_checks.config("config", config)}),
            lambda operations: operations.create_missing(new_topics),
            self._place_faults,
            journal=new_journal("journal", journal),
            registry=embedded_registry(registry, registry_port, host),
        )

    # --- operations

    @property
    def aio(self) -> "AsyncBroker":
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncBroker(self)

    @property
    def bootstrap_servers(self) -> str:
        """host:port, for any client; empty while the broker does not run."""
        self._thread.told_address_s = time.time()
        return self._addresses

    @property
    def _addresses(self) -> str:
        return "" if self._running is None else self._running.core.address


class AsyncBroker(AsyncHost[Operations], BrokerMethods, AsyncParts):
    """The result of `async with Broker()` and of `broker.aio`: the same methods, awaitable on any asyncio event
    loop."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._broker = broker

    @property
    def bootstrap_servers(self) -> str:
        """host:port, for any client; empty while the broker does not run."""
        return self._broker.bootstrap_servers
