"""What became of several things at once: silence where it worked, a sentence for each that did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kmini.cli.asking import reads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kmini.protocol.errors import KafkaError


def report(outcomes: Mapping[str, KafkaError | None], tolerated: str = "") -> None:
    """Say what failed, by name; the exit code is 1 if anything did. The error `tolerated` counts as success."""
    failed = False
    for name, error in outcomes.items():
        if error is not None and error.kafka_name != tolerated:
            click.echo(f"kmini: {name}: {reads(error)}", err=True)
            failed = True
    if failed:
        raise click.exceptions.Exit(1)
