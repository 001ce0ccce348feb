"""`kmini log`: show the files of a data directory."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import click

from kmini.cli import Commands
from kmini.cli.escaping import escaped, visible_json
from kmini.cli.progress import progress
from kmini.cli.tables import format_option
from kmini.testkit.phrases import counted
from kmini.web.json_data import data_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kmini.storage.inspect.dump import Damage, File, Note, Part


@click.group(cls=Commands)
def log() -> None:
    """Show the files of a data directory.

    \b
    kmini log dump data
    """


@log.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--records", is_flag=True, help="Show every record, not only the batches.")
@format_option
def dump(paths: tuple[str, ...], records: bool, output: str) -> None:
    """Print the contents of segments, indexes, producer snapshots and checkpoints, and their damage.

    PATH is a file, the directory of a partition, or a whole data directory, of kmini or of Apache Kafka. A broker may
    be running on it. Damage is printed with file, byte and reason, and makes the exit code 1.

    As json, each entry is an object on a line, with its path and its kind: file, batch, message, record, control,
    entry, producer, setting, note or damage. Keys and values that are not UTF-8 are {"base64": ...}.

    \b
    kmini log dump data/broker-1/orders-0
    kmini log dump --records data/broker-1/orders-0/00000000000000000000.log
    kmini log dump --format json data | jq 'select(.kind == "damage")'
    """
    from kmini.storage.filesystem import OsFileSystem
    from kmini.storage.inspect.dump import Damage, File, Part
    from kmini.storage.inspect.dump import dump as dump_path

    filesystem = OsFileSystem(max_open_files=16)
    damaged = 0
    file = ""
    total = sum(map(_size_of, paths))
    done = size = 0
    with progress("dump", total=total, in_bytes=True, shown=not sys.stdout.isatty()) as update:
        for entry in chain.from_iterable(dump_path(filesystem, p.rstrip("/") or p, records=records) for p in paths):
            if isinstance(entry, (File, Damage)):
                file = entry.path
            if isinstance(entry, File):
                done, size = done + size, _size_of(entry.path)
                update(done)
            elif isinstance(entry, Part) and isinstance(position := entry.fields.get("position"), int):
                update(done + position)
            damaged += isinstance(entry, Damage)
            if output == "json":
                line = visible_json(json.dumps(_as_json(file, entry), ensure_ascii=False))
            else:
                line = escaped(str(entry))
            sys.stdout.write(line + "\n")
    if damaged:
        raise click.ClickException(f"{counted(damaged, 'damaged place')} found")


def _size_of(path: str) -> int:
    """Bytes of a file, or of the files below a directory; 0 for a file that disappeared."""
    paths = [path]
    if os.path.isdir(path):
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    sizes = 0
    for one in paths:
        with suppress(OSError):
            sizes += os.path.getsize(one)
    return sizes


def _as_json(file: str, entry: File | Part | Note | Damage) -> Mapping[str, object]:
    """An entry of this file as a JSON object."""
    from kmini.storage.inspect.dump import Part

    if isinstance(entry, Part):
        return {"path": file, "kind": entry.kind} | {name: _value(value) for name, value in entry.fields.items()}
    return {"path": file, "kind": type(entry).__name__.lower()} | entry._asdict()


def _value(value: object) -> object:
    from kmini.storage.inspect.dump import Span

    if isinstance(value, bytes):
        return data_to_json(value)
    if isinstance(value, tuple) and not isinstance(value, Span):
        return [[name, _value(inner)] for name, inner in value]
    return value
