"""The topics of a pipeline on its cluster: missing ones are created, the others are compared with their declaration."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ..admin import Admin, AdminError, TopicDescription
from .declaration import PipelineDeclaration, Topic

log = logging.getLogger("kmini.pipeline")

PROMISES = ("cleanup.policy", "retention.ms", "retention.bytes", "max.compaction.lag.ms", "delete.retention.ms")
"""Settings that delete records. A pipeline that declares one relies on it."""
APPLY = "kmini pipeline run --apply (in a program run(apply=True))"


class TopicRefusedError(Exception):
    """A topic is missing, or is not as a promise of its declaration needs it."""


def prepare_topics(pipeline: PipelineDeclaration, admin: Admin, *, apply: bool) -> dict[str, TopicDescription]:
    """Describe every topic of the pipeline. Missing topics are created if their partitions are declared.

    A topic that was there is compared with its declaration. Settings that differ are set if `apply` says so; otherwise
    a difference is logged, and one of `PROMISES` raises `TopicRefusedError`.
    """
    names = pipeline.topic_names()
    found = admin.describe(names)
    missing = [pipeline.topic(name) for name in names if found[name] is None]
    for topic in missing:
        if topic.partitions is None:
            stage, verb = next(
                (stage, verb)
                for stage in pipeline.stages
                for verb, topics in (("reads", stage.topics_read), ("writes", (stage.topic_written,)))
                if topic.name in topics
            )
            raise TopicRefusedError(
                f"stage {stage.name!r} {verb} topic {topic.name!r}, which is not on {admin.servers}: "
                f"Topic({topic.name!r}, partitions=...) has it created"
            )
    for topic in pipeline.topics:
        if (there := found[topic.name]) is not None:
            _compare(topic, there, admin, apply=apply)
    for topic in missing:
        try:
            admin.create(topic.name, topic.partitions or 1, topic.configs, topic.replication_factor)
        except AdminError as error:
            if error.name != "TOPIC_ALREADY_EXISTS":
                raise
    if missing:
        found |= _describe_created(admin, [topic.name for topic in missing])
    return {name: description for name, description in found.items() if description is not None}


def _compare(topic: Topic, there: TopicDescription, admin: Admin, *, apply: bool) -> None:
    partitions = len(there.partitions)
    if topic.partitions not in (None, partitions):
        log.warning("topic %s has %d partitions, %d are declared", topic.name, partitions, topic.partitions)
    if topic.replication_factor not in (-1, there.replication_factor):
        log.warning(
            "topic %s has %d replicas, %d are declared", topic.name, there.replication_factor, topic.replication_factor
        )
    in_force: Mapping[str, str] = admin.topic_configs(topic.name).in_force if topic.configs else {}
    different = {
        key: value for key, value in topic.configs.items() if _comparable(value) != _comparable(in_force.get(key, ""))
    }
    if not different:
        return
    if apply:
        admin.alter_topic_configs(topic.name, different)
        log.info("topic %s: set %s", topic.name, _settings(different))
        return
    told = (
        f"topic {topic.name!r} has {_settings({key: in_force.get(key, '(unknown)') for key in different})}, "
        f"and {_settings(different)} is declared: {APPLY} sets it"
    )
    if any(key in PROMISES for key in different):
        raise TopicRefusedError(told)
    log.warning("%s", told)


def _comparable(value: str) -> frozenset[str]:
    """A value of which the order of its items, as in `cleanup.policy`, does not count."""
    return frozenset(item.strip() for item in str(value).split(","))


def _settings(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in configs.items())


def _describe_created(admin: Admin, names: list[str], *, within_s: float = 30.0) -> dict[str, TopicDescription | None]:
    """Describe topics that were just created; a broker learns of them a moment after the answer."""
    deadline = time.monotonic() + within_s
    while True:
        found = admin.describe(names)
        if all(found.values()) or time.monotonic() > deadline:
            if missing := [name for name, topic in found.items() if topic is None]:
                raise TopicRefusedError(f"topic {missing[0]!r} was created and is not there")
            return found
        time.sleep(0.05)
