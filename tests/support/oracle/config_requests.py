"""Requests about settings and partitions, with kafka-python's classes, for scripts whose answers are compared."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

from support.transcript import Transcript
from support.until import until

Resource = tuple[int, str, list[Any]]
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def change(*resources: Resource, validate_only: bool = False) -> Any:
    """IncrementalAlterConfigs; each change is a key, an operation and a value."""
    Altered = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            Altered(
                resource_type=kind,
                resource_name=name,
                configs=[Altered.AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in changes],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )


def replace(*resources: Resource, validate_only: bool = False) -> Any:
    """AlterConfigs; each setting is a key and a value."""
    Altered = AlterConfigsRequest.AlterConfigsResource
    return AlterConfigsRequest(
        resources=[
            Altered(
                resource_type=kind,
                resource_name=name,
                configs=[Altered.AlterableConfig(name=key, value=value) for key, value in settings],
            )
            for kind, name, settings in resources
        ],
        validate_only=validate_only,
    )


def describe(kind: int, name: str, *keys: str, documented: bool = False) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=documented)


def grow(*wishes: tuple[str, int, list[list[int]] | None], validate_only: bool = False, timeout_ms: int = 5_000) -> Any:
    Wish = CreatePartitionsRequest.CreatePartitionsTopic
    Assignment = Wish.CreatePartitionsAssignment
    return CreatePartitionsRequest(
        topics=[
            Wish(
                name=name,
                count=count,
                assignments=None if replicas is None else [Assignment(broker_ids=ids) for ids in replicas],
            )
            for name, count, replicas in wishes
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def tell(transcript: Transcript, what: str, kind: int, name: str, *keys: str, version: int = 4) -> None:
    """Note what DescribeConfigs says; by name, because each server has an order of its own, and without the texts."""
    result = transcript.ask_quietly(describe(kind, name, *keys, documented=version >= 3), version).results[0]
    told = {}
    for config in result.configs:
        told[config.name] = {
            field: value
            for field, value in config.to_dict(json=False).items()
            if field not in ("name", "documentation", "synonyms")
        }
        told[config.name]["synonyms"] = [
            f"{synonym.name}={synonym.value} ({synonym.source})" for synonym in config.synonyms
        ]
    answer = {"error_code": result.error_code, "settings": told}
    transcript.note(f"{what}, v{version}", answer, api="DescribeConfigs")


def settle(transcript: Transcript, kind: int, name: str, key: str, value: str | None) -> None:
    """Return once DescribeConfigs tells `value`: in Apache Kafka a change is known to the broker a moment later."""

    def values() -> list[str | None]:
        (result,) = transcript.ask_quietly(describe(kind, name, key), 4).results
        return [config.value for config in result.configs]

    until(lambda: values() == [value], lambda: f"{key} is {values()}, not {value}")
