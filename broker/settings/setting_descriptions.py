"""Every setting with its value and where that comes from, as DescribeConfigs and CreateTopics tell it (KIP-226).

A setting has places: what was set for the topic or the group, for this broker while it ran, for all brokers while they
ran, what the broker was started with, and Kafka's default, the strongest first. Within one of them a finer unit is
stronger: log.retention.ms than log.retention.hours. A secret's value is left out by `ConfigKey.text`
(`storage/config_key.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import NamedTuple

from ...protocol.messages.describe_configs import (
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    GROUP_CONFIG,
    STATIC_BROKER_CONFIG,
)
from ...storage.config_key import OWN_PREFIX, READ_ONLY, ConfigKey
from ...storage.log_config import LogConfig, topic_key
from ..security.security_settings import changeable_key
from .broker_config import BROKER_KEYS, BrokerConfig, TopicDefault
from .group_config import GroupConfig, defaults_of_groups
from .ignored_keys import can_be_changed


class Place(NamedTuple):
    """Somewhere that says something about a setting."""

    name: str
    """The key there, which may have another name: `log.retention.hours` for `retention.ms`."""
    value: str | None
    source: int


class Setting(NamedTuple):
    """A key with its value in force."""

    name: str
    value: str | None
    is_read_only: bool
    key: ConfigKey | None
    """The line of the table; None for a broker's key that has none."""
    places: Sequence[Place]
    """The strongest first: it is the one in force."""
    main_name: str
    """The key under which the broker has the setting. It differs from `name` for settings of topics."""

    @property
    def is_sensitive(self) -> bool:
        """Whether answers leave the value out: it is a secret, or the key is unknown and it might be one."""
        return _is_sensitive(self.key)

    @property
    def source(self) -> int:
        return self.places[0].source if self.places else DEFAULT_CONFIG

    @property
    def is_listed(self) -> bool:
        """Whether an answer has the setting although the request does not name it: all settings of Kafka but its
        internal ones, and of the others those that are set. Kafka's tools and the tests of its clients compare lists
        with Kafka's."""
        is_hidden = self.name.startswith(OWN_PREFIX) or (self.key is not None and self.key.internal)
        return not is_hidden or self.source != DEFAULT_CONFIG

    def synonyms(self) -> Sequence[Place]:
        """The places that DescribeConfigs shows. Kafka begins with the first that has the setting's own key, and so
        leaves out a value of log.retention.ms that comes from log.retention.hours alone."""
        own = [place for place in self.places if place.source in (DYNAMIC_TOPIC_CONFIG, GROUP_CONFIG)]
        return [*own, *dropwhile(lambda place: place.name != self.main_name, self.places[len(own) :])]


def is_sensitive(name: str) -> bool:
    """Whether a value under this key must not be shown: the key of a topic or a broker is a secret, or is unknown."""
    return _is_sensitive(LogConfig.KEYS.get(name) or _line_of(name))


def _line_of(name: str) -> ConfigKey | None:
    """The line of a broker's key, or of that which a single listener has a value of its own for."""
    return BROKER_KEYS.get(changeable_key(name) or name)


def _is_sensitive(key: ConfigKey | None) -> bool:
    return key is None or key.is_secret


def topic_settings(configs: Mapping[str, str], broker: BrokerConfig) -> Iterator[Setting]:
    """All settings of a topic that has `configs` of its own."""
    for line in LogConfig.KEYS.values():
        value = line.text(broker.log_config.value_of(line))
        places = [*_broker_places(line.broker_keys, broker)]
        if line.name in configs:
            value = _shown(line, configs[line.name])
            places.insert(0, Place(line.name, value, DYNAMIC_TOPIC_CONFIG))
        yield Setting(line.name, value, False, line, places, line.broker_keys[0] if line.broker_keys else line.name)
    for name in configs.keys() - LogConfig.KEYS.keys():
        value = _shown(topic_key(name), configs[name])
        yield Setting(name, value, False, topic_key(name), [Place(name, value, DYNAMIC_TOPIC_CONFIG)], name)


def group_settings(configs: Mapping[str, str], broker: BrokerConfig) -> Iterator[Setting]:
    """All settings of a group that has `configs` of its own."""
    defaults = defaults_of_groups(broker)
    for line in GroupConfig.KEYS.values():
        value = line.text(defaults.value_of(line))
        places = [*_broker_places(line.broker_keys, broker)] or [Place(line.name, value, DEFAULT_CONFIG)]
        if line.name in configs:
            value = _shown(line, configs[line.name])
            places.insert(0, Place(line.name, value, GROUP_CONFIG))
        yield Setting(line.name, value, False, line, places, line.broker_keys[0] if line.broker_keys else line.name)


def broker_settings(broker: BrokerConfig) -> Iterator[Setting]:
    """All settings of a broker."""
    for line in BROKER_KEYS.values():
        names = line.topic_key.broker_keys if isinstance(line, TopicDefault) else (line.name,)
        places = [*_broker_places(names, broker)]
        yield Setting(line.name, broker.text_of(line.name), line.dynamic == READ_ONLY, line, places, line.name)
    for name in {**broker.for_this, **broker.for_all}:
        if name not in BROKER_KEYS:
            places = [*_broker_places((name,), broker)]
            yield Setting(name, places[0].value, not can_be_changed(name), _line_of(name), places, name)


def settings_for_all_brokers(broker: BrokerConfig) -> Iterator[Setting]:
    """The settings that were made for all brokers while they ran."""
    for name, text in broker.for_all.items():
        line = _line_of(name)
        is_read_only = line.dynamic == READ_ONLY if line else not can_be_changed(name)
        value = _shown(line, text)
        yield Setting(name, value, is_read_only, line, [Place(name, value, DYNAMIC_DEFAULT_BROKER_CONFIG)], name)


def _broker_places(names: Sequence[str], broker: BrokerConfig) -> Iterator[Place]:
    """The places that give the setting a value, under any of its names, the strongest first."""
    for layer, source in (
        (broker.for_this, DYNAMIC_BROKER_CONFIG),
        (broker.for_all, DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.given, STATIC_BROKER_CONFIG),
    ):
        for name in names:
            if name in layer:
                yield Place(name, _shown(_line_of(name), layer[name]), source)
    for name in names:
        line = BROKER_KEYS.get(name)
        if line is not None and line.default is not None:
            yield Place(name, line.text(line.default), DEFAULT_CONFIG)


def _shown(line: ConfigKey | None, text: str) -> str | None:
    """A stored value as the table writes it; as it is, if the table has changed since; nothing of what has no line."""
    try:
        return None if line is None else line.text(line.parse(text))
    except ValueError:
        return text
