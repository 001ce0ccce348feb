"""Parsers of arguments that several commands have. A value that cannot be parsed is a UsageError with the expected
form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

MAX_PARTITION = 2**31 - 1


if TYPE_CHECKING:
    Choice = click.Choice[str]
else:
    Choice = click.Choice  # before click 8.2 no generic class


class AnyCase(Choice):
    """A choice that ignores case; returns the name as it is listed."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        names = {name.lower(): name for name in self.choices}
        return super().convert(names.get(str(value).lower(), value), parameter, context)


def changes_options(command: F) -> F:
    """Add the options of commands that change settings: `configs` and `deletions` for `parse_changes`, and
    `dry_run`."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Only check whether the broker would accept the change."),
        click.option(
            "-d", "--delete-config", "deletions", metavar="KEY", multiple=True, help="Restore the default of a setting."
        ),
        click.option(
            "-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="Set a setting to this value."
        ),
    ):
        command = option(command)
    return command


def parse_time(option: str, text: str, *, expected: str = "a time like 2026-01-31T12:00:00Z") -> int:
    """Parse a time in ISO 8601 to milliseconds since 1970 UTC; a time without a zone is local."""
    from datetime import datetime, timezone

    try:
        moment = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
        return max(0, int(moment.astimezone(timezone.utc).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise click.UsageError(f"{option} {text}: {expected} was expected") from None


def parse_setting(option: str, text: str) -> tuple[str, str]:
    """Parse KEY=VALUE; the value may be empty, and spaces around both are dropped."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise click.UsageError(f"{option} {text}: KEY=VALUE was expected")
    return key.strip(), value.strip()


def parse_changes(settings: tuple[str, ...], deletions: tuple[str, ...]) -> dict[str, str | None]:
    """The changes of `--config`, and of `--delete-config` as None."""
    changes: dict[str, str | None] = {}
    for key, value in [*(parse_setting("-c", text) for text in settings), *((key, None) for key in deletions)]:
        if key in changes:
            raise click.UsageError(f"{key} is named twice")
        changes[key] = value
    return changes


def read_properties(path: str) -> dict[str, str]:
    """Read a properties file."""
    from kmini.broker.settings.properties import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"{path} is no properties file: {error}") from error


def parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """Parse TOPIC or TOPIC:PARTITION,PARTITION,…; None stands for all partitions."""
    topic, separator, listed = text.partition(":")
    try:
        if not topic:
            raise ValueError
        if not separator:
            return topic, None
        partitions = [int(number) for number in listed.split(",") if number.isascii() and number.isdigit()]
        if len(partitions) != listed.count(",") + 1 or max(partitions) > MAX_PARTITION:
            raise ValueError
        return topic, list(dict.fromkeys(partitions))
    except ValueError:
        raise click.UsageError(f"{text}: TOPIC or TOPIC:PARTITION,... was expected, as in orders:0,1") from None


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Parse topics and their partitions with `parse_partitions`. A topic that is named twice has the partitions of
    both."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        topic, partitions = parse_partitions(text)
        known = topics.get(topic, [])
        topics[topic] = None if known is None or partitions is None else list(dict.fromkeys([*known, *partitions]))
    return topics
