"""Print rows as a table, as tab-separated lines, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from kmini.cli.escaping import escaped

UNLIMITED = 1 << 20
"""Columns that are wider than any table."""

FORMATS = ("table", "json")
format_option = click.option(
    "--format", "output", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format."
)


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], output: str) -> None:
    """Print a table on a terminal, tab-separated lines under a heading in a pipe, an array of objects as JSON.

    A cell that is None has no value: a dash in text, null in JSON. Control characters are escaped everywhere, so that a
    row is one line. No cell is cut, so a row may be wider than the terminal.
    """
    if output == "json":
        import json

        click.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]))  # only ASCII
    elif sys.stdout.isatty():
        _draw(columns, rows)
    else:
        for row in (columns, *rows):
            click.echo("\t".join(map(_text, row)))


def _draw(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    unlimited = Console(width=UNLIMITED)
    width = Measurement.get(unlimited, unlimited.options, table).maximum
    Console(width=width).print(table)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return escaped(",".join(map(str, cell)) if isinstance(cell, (list, tuple)) else str(cell))


def time_of(timestamp_ms: int) -> str:
    """A timestamp as ISO 8601 in UTC; as a number if it is beyond the calendar."""
    from datetime import datetime, timedelta, timezone

    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
