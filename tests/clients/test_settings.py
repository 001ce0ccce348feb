"""Settings and partitions through the three Python clients: changed, told, and there again after `kill -9`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any, Protocol

import pytest

from support.client_adapters import why_unavailable
from support.server_process import ServerProcess

TOPIC = "orders"


class Admin(Protocol):
    """What an administrator does, through one client."""

    name: str

    def __init__(self, servers: str) -> None: ...

    def close(self) -> None: ...

    def create(self, topic: str) -> None:
        """With one partition."""

    def grow(self, topic: str, count: int) -> None: ...

    def partitions(self, topic: str) -> int: ...

    def set(self, topic: str, key: str, value: str) -> None: ...

    def told(self, topic: str) -> dict[str, str | None]: ...


class KafkaPython:
    name = "kafka-python"

    def __init__(self, servers: str) -> None:
        from kafka.admin import KafkaAdminClient

        self.client = KafkaAdminClient(bootstrap_servers=servers)

    def close(self) -> None:
        self.client.close()

    def create(self, topic: str) -> None:
        from kafka.admin import NewTopic

        self.client.create_topics([NewTopic(topic, 1, 1)])

    def grow(self, topic: str, count: int) -> None:
        from kafka.admin import NewPartitions

        self.client.create_partitions({topic: NewPartitions(total_count=count)})

    def partitions(self, topic: str) -> int:
        return len(self.client.describe_topics([topic])[0]["partitions"])

    def set(self, topic: str, key: str, value: str) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        self.client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})])

    def told(self, topic: str) -> dict[str, str | None]:
        from kafka.admin import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        told = self.client.describe_configs([resource], config_filter="all")
        return {name: config["value"] for name, config in told["topic"][topic].items()}


class Aiokafka:
    name = "aiokafka"

    def __init__(self, servers: str) -> None:
        self.servers = servers

    def close(self) -> None:
        """Every call has a client of its own, which it closes."""

    def _run(self, work: Callable[[Any], Any]) -> Any:
        from aiokafka.admin import AIOKafkaAdminClient

        async def run() -> Any:
            client = AIOKafkaAdminClient(bootstrap_servers=self.servers)
            await client.start()
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(run())

    def create(self, topic: str) -> None:
        from aiokafka.admin import NewTopic

        self._run(lambda client: client.create_topics([NewTopic(topic, 1, 1)]))

    def grow(self, topic: str, count: int) -> None:
        from aiokafka.admin import NewPartitions

        self._run(lambda client: client.create_partitions({topic: NewPartitions(count)}))

    def partitions(self, topic: str) -> int:
        (told,) = self._run(lambda client: client.describe_topics([topic]))
        return len(told["partitions"])

    def set(self, topic: str, key: str, value: str) -> None:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        self._run(lambda client: client.alter_configs([resource]))

    def told(self, topic: str) -> dict[str, str | None]:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (response,) = self._run(lambda client: client.describe_configs([resource]))
        (told,) = response.resources
        return {entry[0]: entry[1] for entry in told[4]}


class ConfluentKafka:
    name = "confluent-kafka"

    def __init__(self, servers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.client = AdminClient({"bootstrap.servers": servers})

    def close(self) -> None:
        """This one ends with the object."""

    @staticmethod
    def _done(futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(30)

    def create(self, topic: str) -> None:
        from confluent_kafka.admin import NewTopic

        self._done(self.client.create_topics([NewTopic(topic, 1, 1)]))

    def grow(self, topic: str, count: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self._done(self.client.create_partitions([NewPartitions(topic, count)]))

    def partitions(self, topic: str) -> int:
        return len(self.client.list_topics(topic, timeout=30).topics[topic].partitions)

    def set(self, topic: str, key: str, value: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._done(self.client.incremental_alter_configs([resource]))

    def told(self, topic: str) -> dict[str, str | None]:
        from confluent_kafka.admin import ConfigResource, ResourceType

        told = self._done(self.client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in told.items()}


@pytest.mark.parametrize("client", [KafkaPython, Aiokafka, ConfluentKafka])
def test_settings_and_partitions_are_there_after_kill_9(client: type[Admin], broker_process: ServerProcess) -> None:
    if reason := why_unavailable(client.name):
        pytest.skip(reason)
    with closing(client(broker_process.bootstrap_servers)) as admin:
        admin.create(TOPIC)
        admin.set(TOPIC, "retention.ms", "7000")
        admin.grow(TOPIC, 3)
    broker_process.kill()
    broker_process.start()
    with closing(client(broker_process.bootstrap_servers)) as admin:
        told = admin.told(TOPIC)
        assert (told["retention.ms"], told["segment.bytes"]) == ("7000", "1073741824")
        assert admin.partitions(TOPIC) == 3


def test_settings_of_a_group_through_kafka_python(broker_process: ServerProcess) -> None:
    """confluent-kafka and aiokafka have no such type of resource."""
    from kafka.admin import ConfigResource, ConfigResourceType

    def group(**changes: object) -> Any:
        configs = {name.replace("_", "."): str(value) for name, value in changes.items()}
        return ConfigResource(ConfigResourceType.GROUP, "billing", configs)

    def told(client: Any) -> dict[str, str]:
        described = client.describe_configs([group()], config_filter="all")["group"]["billing"]
        return {name: config["value"] for name, config in described.items()}

    with closing(KafkaPython(broker_process.bootstrap_servers)) as admin:
        admin.client.alter_configs([group(consumer_heartbeat_interval_ms=500)])
        assert told(admin.client)["consumer.heartbeat.interval.ms"] == "500"
        refused = admin.client.alter_configs([group(consumer_heartbeat_interval_ms=299)])
        assert "group.consumer.min.heartbeat.interval.ms=300" in refused["group"]["billing"]
    broker_process.kill()
    broker_process.start()
    with closing(KafkaPython(broker_process.bootstrap_servers)) as admin:
        after = told(admin.client)
    assert (after["consumer.heartbeat.interval.ms"], after["consumer.session.timeout.ms"]) == ("500", "45000")
