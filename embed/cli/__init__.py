"""The command `kmini`: what can be typed, and which module does it.

A command's module is imported when the command runs, because start-up time counts: `kmini serve` imports no client,
nothing imports what draws tables until there is one to draw, and `kmini --help` imports no command at all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

INTERRUPTED = 130
"""The exit code of a program that was ended with Ctrl-C, as shells count."""


class Sentences(click.Command):
    """A command that fails with one sentence on stderr, and exit code 2 (bad input) or 1 (it did not work)."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        standalone_mode = extra.pop("standalone_mode", True)
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        try:
            result = super().main(args, prog_name, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            click.echo(_sentence(error), err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except Exception as error:
            if os.environ.get("KMINI_TRACEBACK"):
                raise
            kind = type(error).__name__
            click.echo(f"kmini: a fault in kmini itself, {kind}: {error} (KMINI_TRACEBACK=1 shows where)", err=True)
            sys.exit(1)
        sys.exit(result if isinstance(result, int) else 0)


class Program(Sentences, click.Group):
    """A group whose commands are `module:attribute` and a line of help, imported when used."""

    def __init__(self, *args: Any, commands_at: dict[str, tuple[str, str]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._commands_at = commands_at

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._commands_at)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._commands_at:
            return None
        module, _, attribute = self._commands_at[name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in self._commands_at.items()])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments and arguments[0] not in self._commands_at and not arguments[0].startswith("-"):
            known = ", ".join(self._commands_at)
            raise click.UsageError(f"there is no command {arguments[0]!r}, the commands are {known}", context)
        return super().resolve_command(context, arguments)


def _sentence(error: click.ClickException) -> str:
    """What went wrong and, for wrong usage, where the right one is explained; on one line."""
    message = " ".join(error.format_message().split())
    message = message[:1].lower() + message[1:] if message[1:2].islower() else message
    context = getattr(error, "ctx", None)
    if context is None:
        return f"kmini: {message}"
    return f"{context.command_path}: {message.rstrip('.')} ({context.command_path} --help explains)"


@click.command(
    cls=Program,
    commands_at={
        "serve": ("kmini.cli.serve:serve", "Run a broker."),
        "topic": ("kmini.cli.topic:topic", "Create, list, describe, alter and delete topics."),
        "group": ("kmini.cli.group:group", "List, describe, reset and delete consumer groups."),
        "txn": ("kmini.cli.txn:txn", "List, describe and abort transactions."),
        "config": ("kmini.cli.config:config", "Describe and alter settings of topics and brokers."),
        "produce": ("kmini.cli.produce:produce", "Send lines to a topic, each as a record."),
        "consume": ("kmini.cli.consume:consume", "Print the records of a topic."),
        "delete-records": ("kmini.cli.delete_records:delete_records", "Delete the records before an offset (KIP-107)."),
        "health": ("kmini.cli.health:health", "Say whether a broker answers, as an exit code."),
        "log": ("kmini.cli.log:log", "Look into the files of a data directory."),
        "pipeline": ("kmini.cli.pipeline:pipeline", "Run stages on Spark that topics join, and purge what they read."),
        "audit": ("kmini.cli.audit:audit", "Find what should be gone from a data directory, and is still there."),
        "archive": ("kmini.cli.archive:archive", "Copy topics into Parquet files, or what is new in them."),
        "replay": ("kmini.cli.archive:replay", "Write archived topics as they were."),
        "graduate": ("kmini.cli.graduate:graduate", "Make a directory that Apache Kafka starts from."),
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="kmini", message="kmini %(version)s")
def kmini() -> None:
    """A Kafka broker, and what one needs to look at it.

    \b
    kmini serve                              a broker on 127.0.0.1:9092 that keeps nothing
    kmini serve --data-dir data              one that keeps its data
    echo hello | kmini produce orders        send a record
    kmini consume orders                     see it
    kmini topic describe orders              partitions, leaders and offsets
    kmini group describe                     how far consumer groups have come

    Every command explains itself: kmini COMMAND --help.
    """


def main() -> NoReturn:
    """What the installed script `kmini` and `python -m kmini` run."""
    kmini.main(prog_name="kmini")
    raise AssertionError("click exits")
