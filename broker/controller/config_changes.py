"""Changing settings while the broker runs: what AlterConfigs and IncrementalAlterConfigs have in common.

Each resource is a matter of its own, changed as a whole or not at all. What is wrong with it is found in Kafka's order:

    the resource, or a key of it, is named twice            INVALID_REQUEST
    a value is null                                         INVALID_REQUEST
    there is no such type; it is another broker             INVALID_REQUEST
    something is put into a setting that is no list         INVALID_CONFIG
    a topic: its name, its settings, whether there is one   INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, UNKNOWN_TOPIC_...
    a broker: keys that stay as they are, then values       INVALID_REQUEST
    a group: it has no name; its settings                   INVALID_REQUEST, INVALID_CONFIG
    a logger: there is none, there is no such level         INVALID_CONFIG

A change is in the controller's database before it is in force, and in force before it is answered.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ...protocol.errors import (
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ...protocol.messages.describe_configs import BROKER, BROKER_LOGGER, GROUP, TOPIC
from ...protocol.messages.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from ...protocol.topics import validate_topic_name
from ...storage.config_key import LIST, ConfigKey, shorten, split_list
from ...storage.log_config import LogConfig, topic_key
from ..scheduler import Turn
from ..settings import log_levels
from ..settings.broker_config import BROKER_KEYS, BrokerConfig
from ..settings.dynamic_config import is_dynamic
from ..settings.group_config import GroupConfig, check_group_configs
from . import elections
from .controller import Controller
from .stored_config import stored_config
from .topics import is_unclean_election_allowed, live
from .topology import NO_LEADER, BrokerHandle, Topic

log = logging.getLogger("kmini.config")

MAX_VALUE_LENGTH = 32_767
"""The longest value of a topic's setting; Kafka's limit too."""

MAX_UNKNOWN_KEYS = 100
"""Unknown keys that may be stored for a broker. Kafka stores any number."""

MAX_CHANGES = 1000
"""Settings of a resource that one request may change: more than exist. Kafka sets no limit."""

MAX_GROUPS = 10_000
"""Groups that may have settings of their own. Kafka sets no limit."""

THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""Settings that can at most double, and be halved, at a time."""


class Change(NamedTuple):
    """The change of one setting."""

    name: str
    operation: int
    """SET, DELETE, APPEND or SUBTRACT; anything else came from a client."""
    value: str | None


class Alteration(NamedTuple):
    """The changes of one resource."""

    resource_type: int
    resource_name: str
    changes: Sequence[Change]


async def alter(
    broker: BrokerHandle,
    controller: Controller,
    alterations: Sequence[Alteration],
    *,
    replaces: bool,
    validate_only: bool,
) -> list[KafkaError | None]:
    """Change each resource, or say why not, in the order of `alterations`.

    With `replaces`, settings that are not mentioned go back to their defaults.
    """
    times_named = Counter((alteration.resource_type, alteration.resource_name) for alteration in alterations)
    defaults = [(each, each.config.current.log_config) for each in live(controller)]
    outcomes: list[KafkaError | None] = []
    turn = Turn()
    for alteration in alterations:
        if turn.is_over:
            await turn.next()
        try:
            if times_named[alteration[:2]] > 1:
                raise InvalidRequest("the resource stands in the request more than once")
            _alter(broker, controller, alteration, replaces=replaces, validate_only=validate_only)
        except KafkaError as error:
            outcomes.append(error.with_traceback(None))  # which would keep every frame until the answer
        else:
            outcomes.append(None)
    for each, before in defaults:
        if each.config.current.log_config is not before:
            await _put_defaults_in_force(each, controller)
    if not validate_only:
        _elect_unclean(broker, controller)
    return outcomes


def _elect_unclean(broker: BrokerHandle, controller: Controller) -> None:
    """Elect leaders for the partitions without one, where unclean elections are allowed now."""
    if any(state.leader == NO_LEADER for topic in controller.topics.values() for state in topic.partitions):
        try:
            elections.settle(controller, partial(is_unclean_election_allowed, broker.config))
        except KafkaStorageError as error:  # the next broker that comes or goes tries again
            log.error("partitions without a leader stay so: %s", error.message)


def _alter(
    broker: BrokerHandle, controller: Controller, alteration: Alteration, *, replaces: bool, validate_only: bool
) -> None:
    """Change one resource. Nothing else runs between looking at what it is and changing it."""
    resource_type, name, changes = alteration
    if len(changes) > MAX_CHANGES:
        raise PolicyViolation(f"one request can change {MAX_CHANGES} settings of a resource, not {len(changes)}")
    if len({change.name for change in changes}) < len(changes):
        raise InvalidRequest("a setting stands in the request more than once")
    for change in changes:
        if change.value is None and change.operation != DELETE:
            raise InvalidRequest(f"a setting cannot be null: {shorten(change.name)}")
    if resource_type == TOPIC:
        _alter_topic(broker, controller, name, changes, replaces=replaces, validate_only=validate_only)
    elif resource_type == BROKER:
        _alter_broker(broker, controller, name, changes, replaces=replaces, validate_only=validate_only)
    elif resource_type == GROUP:
        _alter_group(broker, controller, name, changes, replaces=replaces, validate_only=validate_only)
    elif resource_type == BROKER_LOGGER and not replaces:
        _alter_loggers(broker.node_id, name, changes, validate_only=validate_only)
    else:
        raise InvalidRequest(f"resource type {resource_type} has no settings here that can be changed")


# --- topics


def _alter_topic(
    broker: BrokerHandle,
    controller: Controller,
    name: str,
    changes: Sequence[Change],
    *,
    replaces: bool,
    validate_only: bool,
) -> None:
    topic = controller.topic(name)
    before = {} if topic is None or replaces else topic.configs
    configs = _changed(before, changes, topic_key)
    if not name:
        raise InvalidRequest("what holds for all topics are the settings of brokers")
    validate_topic_name(name)
    LogConfig.parse(configs, broker.config.current.log_config)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {name}")
    if not validate_only:
        set_topic_configs(controller, topic, configs)


def set_topic_configs(controller: Controller, topic: Topic, configs: Mapping[str, str]) -> None:
    """Replace a topic's settings by others that were checked. Raises KafkaStorageError; then nothing has changed."""
    controller.set_topic_configs(topic, configs)
    for broker in live(controller):
        _put_in_force(broker, controller, topic.name)


async def _put_defaults_in_force(broker: BrokerHandle, controller: Controller) -> None:
    """The broker's defaults have changed: give every log its settings again."""
    turn = Turn()
    for name in list(controller.topics):
        if turn.is_over:
            await turn.next()
        _put_in_force(broker, controller, name)


def _put_in_force(broker: BrokerHandle, controller: Controller, name: str) -> None:
    """Give the logs of a topic its settings as they are now, unless it was deleted meanwhile."""
    topic = controller.topic(name)
    if topic is not None:
        broker.replica_manager.update_topic_config(topic)


def _changed(
    before: Mapping[str, str], changes: Sequence[Change], line_of: Callable[[str], ConfigKey | None]
) -> dict[str, str]:
    """Settings after `changes`; whether they can be is not looked at. Raises InvalidConfig where something is put into
    what is no list, or gets too long, InvalidRequest for an unknown operation."""
    configs = dict(before)
    for name, operation, value in changes:
        if operation == DELETE:
            configs.pop(name, None)
            continue
        assert value is not None, "only what is deleted needs no value"
        if operation in (APPEND, SUBTRACT):
            value = _changed_list(name, operation, value, configs.get(name), line_of(name))
        elif operation != SET:
            raise InvalidRequest(f"there is no operation {operation} on settings")
        if len(value) > MAX_VALUE_LENGTH:
            raise InvalidConfig(f"{shorten(name)} would have {len(value)} characters; at most are {MAX_VALUE_LENGTH}")
        configs[name] = value
    return configs


def _changed_list(name: str, operation: int, value: str, present: str | None, line: ConfigKey | None) -> str:
    """A list with items put in, those that it lacks, or taken out. Where it is not set, that is the default."""
    if line is None or line.type.name != LIST.name:
        raise InvalidConfig(f"{shorten(name)} is no list, to put something into or take out of")
    items = dict.fromkeys(split_list((line.text(line.default) or "" if present is None else present).strip()))
    for item in split_list(value.strip()) or ("",):
        if operation == APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(items)


# --- brokers


def check_is_this_broker(name: str, node_id: int) -> None:
    """Raise InvalidRequest unless `name` is this broker's number."""
    if name != str(node_id):
        raise InvalidRequest(f"this is broker {node_id}; only its settings can be told and changed here")


def _alter_broker(
    broker: BrokerHandle,
    controller: Controller,
    name: str,
    changes: Sequence[Change],
    *,
    replaces: bool,
    validate_only: bool,
) -> None:
    """Change the settings of this broker or, with an empty name, those of all brokers."""
    if name:
        check_is_this_broker(name, broker.node_id)
    configs = _changed({} if replaces else controller.broker_configs(name), changes, BROKER_KEYS.get)
    _check_names(configs)
    present = broker.config.current
    try:
        config = present.with_dynamic(
            controller.broker_configs("") if name else configs,
            configs if name else controller.broker_configs(str(broker.node_id)),
        )
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    _check_thread_counts(config, present)
    if not validate_only:
        controller.set_broker_configs(name, configs)
        broker.update_config(config)
        if not name:
            for other in live(controller):
                if other is not broker:
                    other.update_config(stored_config(other.config.current, controller))


def _check_names(configs: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a setting that cannot change while the broker runs. Kafka's dynamic settings and unknown
    keys can."""
    if fixed := sorted(name for name in configs if not is_dynamic(name)):
        raise InvalidRequest(f"cannot be changed while the broker runs: {', '.join(fixed)}")
    unknown = sum(1 for name in configs if name not in BROKER_KEYS)
    if unknown > MAX_UNKNOWN_KEYS:
        raise PolicyViolation(f"{unknown} unknown settings; {MAX_UNKNOWN_KEYS} can be stored")


def _check_thread_counts(wanted: BrokerConfig, present: BrokerConfig) -> None:
    for name in THREAD_COUNTS:
        line = BROKER_KEYS[name]
        count, now = wanted.value_of(line), present.value_of(line)
        if not now // 2 <= count <= now * 2:
            raise InvalidRequest(f"{name}={count}: must be at least half and at most double of what it is, {now}")


# --- groups


def _alter_group(
    broker: BrokerHandle,
    controller: Controller,
    group_id: str,
    changes: Sequence[Change],
    *,
    replaces: bool,
    validate_only: bool,
) -> None:
    """Change the settings of a group, which need not exist."""
    stored = controller.group_configs
    before = stored.get(group_id, {})
    configs = _changed({} if replaces else before, changes, GroupConfig.KEYS.get)
    if not group_id:
        raise InvalidRequest("the name of a group was expected: there are no settings for all groups")
    check_group_configs(configs, broker.config.current)
    if configs and group_id not in stored and len(stored) >= MAX_GROUPS:
        raise PolicyViolation(f"at most {MAX_GROUPS} groups have settings of their own")
    if not validate_only and configs != before:
        controller.set_group_configs(group_id, configs)


# --- loggers


def _alter_loggers(node_id: int, name: str, changes: Sequence[Change], *, validate_only: bool) -> None:
    check_is_this_broker(name, node_id)
    levels = log_levels.levels()
    for logger, operation, level in changes:
        if operation not in (SET, DELETE):
            raise InvalidRequest(f"there is no operation {operation} on loggers")
        if logger not in levels:
            raise InvalidConfig(f"there is no logger {shorten(logger)}")
        log_levels.check_level(logger, None if operation == DELETE else level)
    if not validate_only:
        for logger, operation, level in changes:
            log_levels.set_level(logger, None if operation == DELETE else level)
