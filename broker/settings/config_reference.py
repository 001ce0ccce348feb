"""The table of broker settings, printed: `python -m kmini.broker.settings.config_reference` makes server.properties."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from ...storage.config_key import ConfigKey
from .broker_config import BROKER_KEYS, TopicDefault

_HEAD = """\
# The settings of a kmini broker. Every line shows the default: remove its "#" to change it.
# Names and meanings are Apache Kafka's; where a default or a rule differs, or a value has no effect, the line above it
# says so and why.
# Rendered from broker/settings/broker_config.py; do not edit.
"""

_WIDTH = 110


def server_properties() -> str:
    """`config/server.properties`: every setting with its meaning and default, commented out."""
    return _HEAD + "".join(_lines())


def _lines() -> Iterator[str]:
    in_topic_defaults = False
    for line in BROKER_KEYS.values():
        section = line.section
        if isinstance(line, TopicDefault):
            if line.name != line.topic_key.broker_keys[0]:
                continue  # printed with the strongest key
            section, in_topic_defaults = "" if in_topic_defaults else "Defaults of topics", True
        if section:
            yield f"\n\n# ---- {section} ".ljust(_WIDTH + 4, "-") + "\n"
        yield "\n" + "".join(f"# {text}\n" for text in wrap(_meaning(line), _WIDTH))
        default = line.topic_key.default if isinstance(line, TopicDefault) else line.default
        yield f"#{line.name}={line.text(default) or ''}\n"


def _meaning(line: ConfigKey) -> str:
    meaning = line.doc
    if line.differs:
        meaning += f" ({line.differs}.)"
    if line.no_effect:
        meaning += f" (Accepted without effect: {line.no_effect}.)"
    if isinstance(line, TopicDefault):
        weaker = line.topic_key.broker_keys[1:]
        meaning += f" [topics: {line.topic_key.name}{'; weaker: ' + ', '.join(weaker) if weaker else ''}]"
    return meaning


if __name__ == "__main__":
    print(server_properties(), end="")
