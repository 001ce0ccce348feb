"""The broker inside a program: `with Broker() as broker:` blocks, `async with Broker() as broker:` awaits.

The operations are written once (`operations.py`); `Broker` has them as blocking methods and `AsyncBroker` as methods to
await (`handle.py`), with the handles `topic(...)`, `clock` and more (`parts.py`).
"""

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.errors import InvalidArgument
from kmini.testkit import argument_checks
from kmini.testkit.argument_checks import Config, Topics
from kmini.testkit.contents import PartitionOffsets
from kmini.testkit.handle import method
from kmini.testkit.host import AsyncHost, Host, quick_security, settings_of
from kmini.testkit.operations import Operations
from kmini.testkit.parts import AsyncParts, Parts

__all__ = ["AsyncBroker", "Broker"]


class BrokerOperations(Operations):
    """The operations of a cluster of one, as a `Broker` spells them."""

    what = "broker"
    none_runs = "the broker has crashed and does not run again: stop and start it, unless that is under way"

    async def create_topic(
        self, name: str, partitions: int = 1, config: Config | None = None, *, replication_factor: int = -1
    ) -> None:
        """Create a topic; clients can produce to it when this returns.

        Raises TopicAlreadyExists, InvalidTopic, InvalidConfig, InvalidPartitions, InvalidReplicationFactor.

        >>> broker.create_topic("users", 3, {"cleanup.policy": "compact"})
        >>> broker.topics()
        ['orders', 'users']
        """
        self.create(name, partitions, replication_factor, config)

    async def offsets(self, topic: str, partition: int = 0) -> PartitionOffsets:
        """The offsets of a partition. Raises UnknownTopicOrPartition."""
        return PartitionOffsets.of(self.leader_of(topic, partition)[1].log)

    async def metrics_text(self) -> str:
        """The metrics, in Prometheus' text format."""
        from kmini.broker.metrics_text import metrics_text_in_turns  # start-up time counts

        return await metrics_text_in_turns(self.one_broker(None))

    async def pause(self) -> None:
        """Pause the broker, as SIGSTOP does, until `reconnect`: its clients connect and wait. Methods of this object go
        on. Raises ValueError if it is paused."""
        server = self.one_broker(None).server
        if server.is_suspended:
            raise InvalidArgument("the broker is paused already")
        server.is_suspended = True

    async def reconnect(self) -> None:
        """End `pause`: requests that came meanwhile are answered. Raises ValueError if the broker is not paused."""
        server = self.one_broker(None).server
        if not server.is_suspended:
            raise InvalidArgument("the broker is not paused")
        server.resume()


class BrokerMethods:
    """The methods of a broker, beside those it shares with a cluster (`parts.py`)."""

    create_topic = method(BrokerOperations.create_topic)
    offsets = method(BrokerOperations.offsets)
    metrics_text = method(BrokerOperations.metrics_text)
    pause = method(BrokerOperations.pause)
    reconnect = method(BrokerOperations.reconnect)


class Broker(Host[BrokerOperations, "AsyncBroker"], BrokerMethods, Parts):
    """A broker on its own port, with a private data directory that is removed at the end.

    `port` 0 takes any free port. `config` holds settings by Kafka's names ("auto.create.topics.enable": "false").
    `topics` are created before the broker is ready: names, or a mapping of names to numbers of partitions or to
    mappings with `partitions`, `replication_factor` and `config`. With `data_dir` the data stay there. `as_version`
    ("2.8", "3.9", "4.0" or "4.3") serves the requests and versions of that release of Apache Kafka and no others. With
    `timestamps="append"` records carry the time of this broker, which tests move (LogAppendTime), unless a topic says
    otherwise; by default they carry the producer's time. With `journal` the broker keeps its last requests, for
    `requests`. With `registry` a schema registry is served at `registry_url`, on `registry_port` or any free one (extra
    "registry").

    Clients of a broker with `tls="auto"` encrypt; with "mutual" they show a certificate, too, which names the user
    (extra "tls"). With `sasl`, "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512", they log in as one of `users`, passwords by
    name; without `users` there is one. With "OAUTHBEARER" they get a token from the issuer that runs beside the broker.
    `acls` are the rules of what users may do, as "alice Write topic:orders" or "bob Read topic:eu-*". `client_config`
    has what a client needs for all this.

    Raises ConfigError, TypeError, ValueError, and ImportError where the extra is not installed.

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
        tls: Literal["auto", "mutual"] | None = None,
        sasl: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[str] | None = None,
    ) -> None:
        super().__init__("broker", argument_checks.directory("data_dir", data_dir))
        argument_checks.text("host", host, "the name or address of an interface as str")
        argument_checks.integer("port", port, "a port, 0 for any free one", 0, 65_535)
        security = quick_security(tls, sasl, users, acls, host, data_dir)
        own = settings_of(security, f"{host}:{port}")
        options = argument_checks.as_settings(as_version, timestamps)
        self._live(
            BrokerOperations,
            [BrokerConfig.parse({**own, **options, **argument_checks.config("config", config)})],
            host,
            topics=topics,
            journal=journal,
            registry=registry,
            registry_port=registry_port,
            security=security,
        )

    @property
    def aio(self) -> "AsyncBroker":
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncBroker(self)


class AsyncBroker(AsyncHost[BrokerOperations], BrokerMethods, AsyncParts):
    """The result of `async with Broker()` and of `broker.aio`: the same methods, awaitable on any asyncio event
    loop."""
