"""The outcomes of an operation on several names: silence for a success, a sentence for each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from kmini.cli.broker_call import error_text
from kmini.cli.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from kmini.protocol.errors import KafkaError

T = TypeVar("T")


async def each(
    names: Iterable[str], work: Callable[[str], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, KafkaError | None]]:
    """Call `work` for one name after the other. Returns the results, and the error of each name or None. A lost broker
    (Disconnected) ends it."""
    from kmini.client import Disconnected
    from kmini.protocol.errors import KafkaError

    results: dict[str, T] = {}
    outcomes: dict[str, KafkaError | None] = {}
    for name in dict.fromkeys(names):
        try:
            results[name] = await work(name)
        except Disconnected:
            raise
        except KafkaError as error:
            outcomes[name] = error
        else:
            outcomes[name] = None
    return results, outcomes


def report(outcomes: Mapping[str, KafkaError | None], tolerated: str = "") -> None:
    """Report the failures by name; the exit code is 1 if there are any. The error `tolerated` counts as success."""
    failed = False
    for name, error in outcomes.items():
        if error is not None and error.kafka_name != tolerated:
            click.echo(f"kmini: {escaped(name)}: {error_text(error)}", err=True)
            failed = True
    if failed:
        raise click.exceptions.Exit(1)
