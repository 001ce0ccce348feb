"""`kmini help COMMAND`: the same as `kmini COMMAND --help`."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("names", metavar="[COMMAND...]", nargs=-1)
@click.pass_context
def help_(context: click.Context, names: tuple[str, ...]) -> None:
    """Explain a command, as COMMAND --help does.

    \b
    kmini help
    kmini help topic create
    """
    parent = context.parent
    assert parent is not None
    explained = parent
    for number, name in enumerate(names):
        command = explained.command
        if not isinstance(command, click.Group):
            raise click.UsageError(f"{' '.join(names[:number])} has no commands of its own, so no {name!r}", parent)
        _, found, _ = command.resolve_command(explained, [name])
        assert found is not None  # an unknown name is an error of resolve_command
        explained = click.Context(found, info_name=name, parent=explained)
    click.echo(explained.get_help())
