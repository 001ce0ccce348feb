"""The levels of this process's loggers, by Kafka's names, as clients see and change them (KIP-412).

Clients see the loggers below `kmini`, and `kmini` itself as `root`: the real root belongs to the program that embeds
the broker. Changes end with the process, as in Kafka.
"""

import logging

from ...protocol.errors import InvalidConfig, InvalidRequest
from ...storage.config_key import shorten

ROOT = "root"

_OURS = "kmini"

_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Nothing is logged below DEBUG; TRACE is there because Kafka has it."""


def levels() -> dict[str, str]:
    """The level in force of every logger there is, by name."""
    names = [name for name, known in logging.root.manager.loggerDict.items() if isinstance(known, logging.Logger)]
    ours = sorted(name for name in names if name.startswith(f"{_OURS}."))
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in (ROOT, *ours)}


def check_level(name: str, level: str | None) -> None:
    """Raise InvalidConfig unless there is such a level, and InvalidRequest where it is None, back to the level of the
    loggers above, and nothing is above."""
    if level is None:
        if name == ROOT:
            raise InvalidRequest("the root logger cannot do without a level")
    elif level not in _LEVELS:
        raise InvalidConfig(f"{shorten(name)}={shorten(level)}: a level is one of {', '.join(_LEVELS)}")


_levels_before: dict[str, int] = {}
"""The levels that loggers had before a client changed them, by name."""


def set_level(name: str, level: str | None) -> None:
    """Set a level that was checked."""
    logger = _logger(name)
    _levels_before.setdefault(name, logger.level)
    logger.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def restore_levels() -> None:
    """Undo every `set_level`."""
    while _levels_before:
        name, level = _levels_before.popitem()
        _logger(name).setLevel(level)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_OURS if name == ROOT else name)


def _name_of(level: int) -> str:
    """Kafka's name of the strictest level that lets through what `level` does."""
    return next((name for name, number in _LEVELS.items() if level <= number), "FATAL")
