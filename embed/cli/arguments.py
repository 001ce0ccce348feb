"""How several commands read their arguments; what cannot be read is a UsageError that says what was expected."""

from __future__ import annotations

import click

MAX_PARTITION = 2**31 - 1


def parse_time(option: str, text: str, *, expected: str = "a time like 2026-01-31T12:00:00Z") -> int:
    """A moment in ISO 8601 as milliseconds since 1970 UTC; one without a zone is in local time."""
    from datetime import datetime, timezone

    try:
        moment = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
        return max(0, int(moment.astimezone(timezone.utc).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise click.UsageError(f"{option} {text}: {expected} was expected") from None


def parse_setting(option: str, text: str) -> tuple[str, str]:
    """KEY=VALUE, of which the value may be empty."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.UsageError(f"{option} {text}: KEY=VALUE was expected")
    return key, value


def parse_changes(settings: tuple[str, ...], deletions: tuple[str, ...]) -> dict[str, str | None]:
    """What `--config` sets and, as None, what `--delete-config` takes back."""
    changes: dict[str, str | None] = {}
    for key, value in [*(parse_setting("-c", text) for text in settings), *((key, None) for key in deletions)]:
        if key in changes:
            raise click.UsageError(f"{key} is named twice")
        changes[key] = value
    return changes


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
