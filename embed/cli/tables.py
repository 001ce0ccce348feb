"""Rows for people, for pipes and for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

FORMATS = ("text", "json")
format_option = click.option(
    "--format", "output", type=click.Choice(FORMATS), default="text", show_default=True, help="How to print."
)


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], output: str) -> None:
    """A table on a terminal, tab-separated lines under a heading in a pipe, an array of objects as JSON."""
    if output == "json":
        import json

        click.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]))
    elif sys.stdout.isatty():
        _draw(columns, rows)
    else:
        for row in (columns, *rows):
            click.echo("\t".join(map(_text, row)))


def _draw(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(table)


def _text(cell: object) -> str:
    return ",".join(map(str, cell)) if isinstance(cell, (list, tuple)) else str(cell)
