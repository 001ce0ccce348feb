"""The command `kmini`, its commands, the module of each, and how a command fails: a sentence and an exit code.

A command's module is imported when the command runs, because start-up time counts: `kmini serve` imports no client,
tables are imported when one is drawn, and `kmini --help` imports no command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kmini.cli.escaping import escaped
from kmini.cli.output import CLOSED_PIPE, OutputFailed, give_up_output, guard_output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C has ended, as shells count."""


class Sentences(click.Command):
    """A command that fails with one sentence on stderr, and exit code 2 (bad input) or 1 (failure).

    If the reader of its output closes the pipe, the command ends silently with exit code CLOSED_PIPE.
    """

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        standalone_mode = extra.pop("standalone_mode", True)
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        guard_output()
        try:
            result = super().main(args, prog_name, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _say(_sentence(error))
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except OutputFailed as error:
            give_up_output()
            if error.is_closed_pipe:
                sys.exit(CLOSED_PIPE)
            _say(f"kmini: cannot write the output: {error}")
            sys.exit(1)
        except Exception as error:
            if os.environ.get("KMINI_TRACEBACK"):
                raise
            text = escaped(f"{type(error).__name__}: {error}")
            _say(f"kmini: a fault in kmini itself, {text} (KMINI_TRACEBACK=1 shows where)")
            sys.exit(1)
        sys.exit(result if isinstance(result, int) else 0)


class Commands(Sentences, click.Group):
    """A group that lists its commands when an unknown one is called."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(context)
        if arguments and arguments[0] not in names and not arguments[0].startswith("-"):
            from kmini.testkit.name_hints import similar  # start-up time counts

            raise click.UsageError(
                f"there is no command {arguments[0]!r}{similar(arguments[0], names)}, "
                f"the commands are {', '.join(names)}",
                context,
            )
        return super().resolve_command(context, arguments)


class Program(Commands):
    """A group whose commands are `module:attribute` and a line of help; they are imported when used."""

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

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands without importing them; else the group's own options."""
        from click.shell_completion import CompletionItem

        names = [name for name in self._commands_at if name.startswith(incomplete)]
        if not names:
            return click.Command.shell_complete(self, context, incomplete)
        return [CompletionItem(name, help=self._commands_at[name][1]) for name in names]


def _say(sentence: str) -> None:
    """Print on stderr; if that is closed or full, only the exit code reports."""
    with suppress(OSError):
        click.echo(sentence, err=True)


def _sentence(error: click.ClickException) -> str:
    """The error as one line; for wrong usage, with the command that explains the right one."""
    message = escaped(" ".join(error.format_message().split()))
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
        "doctor": ("kmini.cli.doctor:doctor", "Look for what is wrong with a Kafka, and say what to change."),
        "client-config": (
            "kmini.cli.client_config:client_config",
            "Print the settings of a client in the words of its library.",
        ),
        "health": ("kmini.cli.health:health", "Check whether a broker answers; the exit code tells."),
        "trace": ("kmini.cli.trace:trace", "Show the requests and answers that pass between clients and any Kafka."),
        "storage": ("kmini.cli.storage:storage", "Prepare a data directory: its cluster id, and users of SCRAM."),
        "log": ("kmini.cli.log:log", "Show the files of a data directory."),
        "pipeline": ("kmini.cli.pipeline:pipeline", "Run stages on Spark that topics join, and purge what they read."),
        "audit": (
            "kmini.cli.audit:audit",
            "Find records that should be gone from a data directory and are still there.",
        ),
        "archive": ("kmini.cli.archive:archive", "Copy topics, or their new records, into Parquet files."),
        "replay": ("kmini.cli.archive:replay", "Write archived topics back."),
        "graduate": ("kmini.cli.graduate:graduate", "Make a directory that Apache Kafka starts from."),
        "help": ("kmini.cli.help:help_", "Explain a command."),
        "completion": ("kmini.cli.completion:completion", "Print the shell code that completes commands."),
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="kmini", message="kmini %(version)s")
def kmini() -> None:
    """A Kafka broker, and the commands to look at it.

    \b
    kmini serve                              a broker on 127.0.0.1:9092 without stored data
    kmini serve --data-dir data              a broker that keeps its data
    echo hello | kmini produce orders        send a record
    kmini consume orders                     print it
    kmini topic describe orders              partitions, leaders and offsets
    kmini group describe                     offsets and lag of consumer groups

    Every command explains itself: kmini help COMMAND, or kmini COMMAND --help.
    """


def main() -> NoReturn:
    """Run `kmini`: the entry of the installed script and of `python -m kmini`."""
    kmini.main(prog_name="kmini")
    raise AssertionError("click exits")
