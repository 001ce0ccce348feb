"""`kmini log`: look into the files of a data directory."""

from __future__ import annotations

import click


@click.group()
def log() -> None:
    """Look into the files of a data directory."""


@log.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--records", is_flag=True, help="Show every record, not only the batches.")
def dump(paths: tuple[str, ...], records: bool) -> None:
    """Print what is in segments, indexes, producer snapshots and checkpoints, and what is wrong with them.

    PATH is a file, the directory of a partition, or a whole data directory, of kmini or of Apache Kafka. A broker may
    be running on it. Damage is named with file, byte and reason, and the exit code is 1 then.

    \b
    kmini log dump data/broker-1/orders-0
    kmini log dump --records data/broker-1/orders-0/00000000000000000000.log
    """
    from kmini.storage.dump import Damage
    from kmini.storage.dump import dump as dump_path
    from kmini.storage.filesystem import OsFileSystem

    filesystem = OsFileSystem(max_open_files=16)
    damaged = 0
    for path in paths:
        for entry in dump_path(filesystem, path.rstrip("/") or path, records=records):
            if isinstance(entry, Damage):
                damaged += 1
                click.echo(f"damaged: {entry.path} at byte {entry.position}: {entry.reason}")
            else:
                click.echo(entry)
    if damaged:
        raise click.ClickException(f"{damaged} damaged place{'' if damaged == 1 else 's'} found")
