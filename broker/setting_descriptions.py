"""Every setting with its value and where that comes from, as DescribeConfigs and CreateTopics tell it (KIP-226)."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..protocol.messages.describe_configs import DEFAULT_CONFIG, DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG
from ..storage.config import LogConfig, topic_key
from ..storage.config_key import READ_ONLY, ConfigKey
from .config import BROKER_KEYS, BrokerConfig, TopicDefault


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
    """Its line of the table; None for a key of Kafka's that is stored and has no effect."""
    places: list[Place]
    """The strongest first: it is the one in force."""

    @property
    def source(self) -> int:
        return self.places[0].source if self.places else DEFAULT_CONFIG


def topic_settings(configs: Mapping[str, str], broker: BrokerConfig) -> Iterator[Setting]:
    """All settings of a topic that has `configs` of its own."""
    for line in LogConfig.KEYS.values():
        places = [place for key in line.broker_keys for place in _given(key, broker)]
        if line.broker_keys:
            weakest = BROKER_KEYS[line.broker_keys[-1]]
            places.append(Place(weakest.name, weakest.text(weakest.default), DEFAULT_CONFIG))
        value = line.text(broker.log_config.value_of(line))
        if line.name in configs:
            value = configs[line.name].strip()
            places.insert(0, Place(line.name, value, DYNAMIC_TOPIC_CONFIG))
        yield Setting(line.name, value, False, line, places)
    for name in configs.keys() - LogConfig.KEYS.keys():
        place = Place(name, configs[name].strip(), DYNAMIC_TOPIC_CONFIG)
        yield Setting(name, place.value, False, topic_key(name), [place])


def broker_settings(broker: BrokerConfig) -> Iterator[Setting]:
    """All settings of a broker."""
    for line in BROKER_KEYS.values():
        names = line.topic_key.broker_keys if isinstance(line, TopicDefault) else (line.name,)
        places = [place for name in names[names.index(line.name) :] for place in _given(name, broker)]
        if line.default is not None:
            places.append(Place(line.name, line.text(line.default), DEFAULT_CONFIG))
        yield Setting(line.name, broker.text_of(line.name), line.dynamic == READ_ONLY, line, places)


def _given(name: str, broker: BrokerConfig) -> Iterator[Place]:
    if name in broker.given:
        yield Place(name, broker.given[name], STATIC_BROKER_CONFIG)
