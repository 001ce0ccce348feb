"""Levels of loggers, by Kafka's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kmini.broker.settings import log_levels


@pytest.fixture
def ours() -> Iterator[logging.Logger]:
    """The logger that clients know as root; put back at the end."""
    logger = logging.getLogger("kmini")
    before = logger.level
    yield logger
    logger.setLevel(before)


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "TRACE"), (5, "TRACE"), (10, "DEBUG"), (15, "INFO"), (20, "INFO"), (30, "WARN"), (40, "ERROR"), (50, "FATAL")],
)
def test_a_level_between_two_of_kafkas_is_the_one_that_lets_no_more_through(
    ours: logging.Logger, number: int, name: str
) -> None:
    ours.setLevel(number)
    assert log_levels.levels()["root"] == name


def test_beyond_the_highest_level_is_the_highest(ours: logging.Logger) -> None:
    ours.setLevel(60)
    assert log_levels.levels()["root"] == "FATAL"


def test_other_programs_loggers_are_not_told() -> None:
    logging.getLogger("somebody.else")
    told = log_levels.levels()
    assert all(name == "root" or name.startswith("kmini.") for name in told)
    assert "kmini" not in told


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
def test_a_level_that_is_set_is_told(ours: logging.Logger, level: str) -> None:
    log_levels.set_level("root", level)
    assert log_levels.levels()["root"] == level
