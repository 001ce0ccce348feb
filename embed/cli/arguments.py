"""How several commands read their arguments; what cannot be read is a UsageError that says what was expected."""

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
    """One of some names, in capitals or not; gives the name as it is listed."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        names = {name.lower(): name for name in self.choices}
        return super().convert(names.get(str(value).lower(), value), parameter, context)


def changes_options(command: F) -> F:
    """The options of commands that change settings: `configs` and `deletions` for `parse_changes`, and `dry_run`."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Only let the broker say whether it would."),
        click.option(
            "-d", "--delete-config", "deletions", metavar="KEY", multiple=True, help="Give a setting back its default."
        ),
        click.option(
            "-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="Give a setting this value."
        ),
    ):
        command = option(command)
    return command


def parse_time(option: str, text: str, *, expected: str = "a time like 2026-01-31T12:00:00Z") -> int:
    """A moment in ISO 8601 as milliseconds since 1970 UTC; one without a zone is in local time."""
    from datetime import datetime, timezone

    try:
        moment = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
        return max(0, int(moment.astimezone(timezone.utc).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise click.UsageError(f"{option} {text}: {expected} was expected") from None


def parse_setting(option: str, text: str) -> tuple[str, str]:
    """KEY=VALUE, of which the value may be empty; spaces around either do not count."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise click.UsageError(f"{option} {text}: KEY=VALUE was expected")
    return key.strip(), value.strip()


def parse_changes(settings: tuple[str, ...], deletions: tuple[str, ...]) -> dict[str, str | None]:
    """What `--config` sets and, as None, what `--delete-config` takes back."""
    changes: dict[str, str | None] = {}
    for key, value in [*(parse_setting("-c", text) for text in settings), *((key, None) for key in deletions)]:
        if key in changes:
            raise click.UsageError(f"{key} is named twice")
        changes[key] = value
    return changes


def read_properties(path: str) -> dict[str, str]:
    """The lines of a properties file."""
    from kmini.broker.settings.properties import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"{path} is no properties file: {error}") from error


def parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """TOPIC, or TOPIC:PARTITION,PARTITION,…; without partitions None, which stands for all."""
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
    """Topics and their partitions, each read by `parse_partitions`. A topic named twice has the partitions of both."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        topic, partitions = parse_partitions(text)
        known = topics.get(topic, [])
        topics[topic] = None if known is None or partitions is None else list(dict.fromkeys([*known, *partitions]))
    return topics
