"""`kmini trace`: a proxy in front of any Kafka that shows requests and answers as they pass; and its files."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kmini.cli.log_output import notice
from kmini.cli.tables import show

if TYPE_CHECKING:
    import ssl

    from kmini.broker.journal.entries import JournalEntry
    from kmini.broker.journal.entry_selection import EntrySelection
    from kmini.trace.observer import Observer
    from kmini.trace.output import TraceOutput
    from kmini.trace.proxied_faults import ProxiedFaults
    from kmini.trace.trace_file import TraceWriter

FORMATS = ("text", "json")
LISTEN = "127.0.0.1:19092"
FLUSH_S = 0.1
"""Seconds after which lines are written out at the latest."""


@click.command()
@click.argument("target", metavar="HOST:PORT|FILE")
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    default=LISTEN,
    show_default=True,
    help="Where clients connect; 0 is any free port.",
)
@click.option("--topic", metavar="NAME", help="Only requests that name this topic.")
@click.option("--client", metavar="PATTERN", help='Only requests of these client ids, as "app-*".')
@click.option("--group", metavar="NAME", help="Only requests that name this group.")
@click.option("--api", metavar="NAME", help='Only requests of this API, as "Produce".')
@click.option("--errors", is_flag=True, help="Only requests that got an error, or no answer that was due.")
@click.option(
    "--format", "output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help="Output format."
)
@click.option(
    "--save", metavar="FILE", type=click.Path(dir_okay=False), help="Write the exchanges to a new file as well."
)
@click.option("--fault", metavar="FILE", type=click.Path(dir_okay=False), help="Fault rules to apply, as a JSON list.")
@click.option(
    "--command-config",
    "config",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Settings of a client, as a properties file: the proxy speaks TLS to brokers, and clients speak none to it.",
)
@click.option("--statistics", is_flag=True, help="At the end, print totals for each API and each client.")
def trace(
    target: str,
    listen: str,
    topic: str | None,
    client: str | None,
    group: str | None,
    api: str | None,
    errors: bool,
    output: str,
    save: str | None,
    fault: str | None,
    config: str | None,
    statistics: bool,
) -> None:
    """Show the requests and answers that pass, between clients and any Kafka.

    Clients connect to the port that is printed, instead of the broker, and stay on the proxy: it has one local port for
    each broker, and rewrites the addresses in answers. A file that --save wrote is shown again.

    \b
    kmini trace localhost:9092
    kmini trace localhost:9092 --listen 19092 --topic orders --errors
    kmini trace localhost:9092 --save orders.kmtrace --statistics
    kmini trace orders.kmtrace --api Fetch
    kmini trace localhost:9092 --fault rules.json
    """
    selection = _selection(api, topic, client, group, errors)
    if os.path.exists(target):
        for option, given in (("--save", save), ("--fault", fault), ("--command-config", config)):
            if given is not None:
                raise click.UsageError(f"{option}: {target} is a file, to which no client connects")
        _show_file(target, selection, output, statistics)
        return
    address = _address(target, "HOST:PORT")
    local = _address(listen if ":" in listen else f"127.0.0.1:{listen}", "--listen")
    rules = None if fault is None else _read_rules(fault)
    tls = None if config is None else _tls(config)
    with nullcontext() if save is None else _saving(save, target) as writer:
        _run(address, local, selection, output, writer, rules, tls, statistics)


# --- live


def _run(
    address: tuple[str, int],
    listen: tuple[str, int],
    selection: EntrySelection,
    output: str,
    writer: TraceWriter | None,
    rules: object,
    tls: ssl.SSLContext | None,
    statistics: bool,
) -> None:
    """Trace until a signal ends it; turn errors of the start into sentences."""
    from kmini.broker.network.event_loop import new_event_loop, raise_descriptor_limit
    from kmini.cli.serve import told_to_stop

    raise_descriptor_limit()
    loop = new_event_loop()
    try:
        stopping = told_to_stop(loop)

        def failed(error: Exception) -> None:
            if not stopping.done():
                stopping.set_exception(error)

        shown = _output(selection, output, failed, writer)
        loop.run_until_complete(_serve(address, listen, shown, writer, rules, tls, stopping))
    finally:
        loop.close()
    if statistics:
        _show_statistics(shown, output)


async def _serve(
    address: tuple[str, int],
    listen: tuple[str, int],
    shown: TraceOutput,
    writer: TraceWriter | None,
    rules: object,
    tls: ssl.SSLContext | None,
    stopping: asyncio.Future[None],
) -> None:
    from kmini.trace.observer import Observer
    from kmini.trace.proxy import Proxy
    from kmini.trace.proxy import shown as as_text

    observer = Observer(shown.show)
    faults = None if rules is None else _faults(rules, observer)
    proxy = Proxy(address, listen, observer, notice, faults, tls)
    try:
        port = await proxy.start()
    except (OSError, OverflowError) as error:
        from kmini.cli.http_ports import remedy

        failure = RuntimeError()
        failure.__cause__ = error
        reason = getattr(error, "strerror", None) or str(error)
        raise click.UsageError(
            f"cannot listen on {as_text(listen)}: {reason}; {remedy(failure, '--listen', '--listen')}"
        ) from error
    notice(
        f"clients connect to {as_text((listen[0], port))}, which stands for {as_text(address)}; Ctrl-C ends the trace"
    )
    flushing = asyncio.get_running_loop().create_task(_flush(writer, stopping))
    try:
        await stopping
    except OSError as error:
        raise click.ClickException(f"cannot write the trace: {error.strerror or error}") from error
    finally:
        flushing.cancel()
        for sentence in () if faults is None else faults.summaries():
            notice(sentence)
        await proxy.close()
        sys.stdout.flush()


def _tls(path: str) -> ssl.SSLContext | None:
    """The TLS of a client's settings. UsageError for settings that have none, or cannot be."""
    from kmini.cli.command_config import read_command_config, tls_of

    settings = read_command_config(path)
    found = tls_of(path, settings)
    if found is None:
        protocol = settings.get("security.protocol", "PLAINTEXT")
        raise click.UsageError(f"{path}: security.protocol={protocol} has no TLS, and the rest passes the proxy unread")
    return found


def _faults(rules: object, observer: Observer) -> ProxiedFaults:
    from kmini.trace.proxied_faults import ProxiedFaults

    try:
        return ProxiedFaults(rules, observer)
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"--fault: {error}") from error


async def _flush(writer: TraceWriter | None, stopping: asyncio.Future[None]) -> None:
    """Write out lines from time to time, not one by one."""
    while True:
        await asyncio.sleep(FLUSH_S)
        try:
            sys.stdout.flush()
            if writer is not None:
                writer.flush()
        except Exception as error:
            if not stopping.done():
                stopping.set_exception(error)
            return


def _output(selection: EntrySelection, output: str, failed: Any, writer: TraceWriter | None = None) -> TraceOutput:
    from kmini.trace.lines import json_line, text_line
    from kmini.trace.output import TraceOutput

    def write(line: str) -> None:
        sys.stdout.write(line + "\n")

    return TraceOutput(selection, json_line if output == "json" else text_line, write, failed, writer)


# --- files


def _show_file(path: str, selection: EntrySelection, output: str, statistics: bool) -> None:
    from kmini.trace.trace_file import DamagedTrace, read_exchanges

    def failed(error: Exception) -> None:
        raise error

    shown = _output(selection, output, failed)
    damage = None
    try:
        with open(path, encoding="utf-8") as file:
            for exchange in read_exchanges(file):
                shown.show(exchange)
    except DamagedTrace as error:
        damage = error
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if statistics:
        _show_statistics(shown, output)
    if damage is not None:
        raise click.ClickException(f"{path}: {damage}")


@contextmanager
def _saving(path: str, target: str) -> Iterator[TraceWriter]:
    """A new file for exchanges."""
    from kmini.trace.trace_file import TraceWriter

    try:
        file = open(path, "x", encoding="utf-8")  # noqa: SIM115  # closed below; errors of the rest are others
    except FileExistsError:
        raise click.UsageError(f"--save {path}: the file exists already") from None
    except OSError as error:
        raise click.UsageError(f"--save {path}: {error.strerror or error}") from error
    with file:
        yield TraceWriter(file, target)


def _show_statistics(shown: TraceOutput, output: str) -> None:
    for columns, rows in shown.statistics.tables():
        if output == FORMATS[0]:
            click.echo()
        show(columns, rows, "table" if output == FORMATS[0] else "json")


# --- arguments


def _selection(
    api: str | None, topic: str | None, client: str | None, group: str | None, errors: bool
) -> EntrySelection:
    from kmini.broker.journal.entry_selection import EntrySelection
    from kmini.protocol.api_keys import API_NAMES

    known = {name.lower(): name for name in API_NAMES.values()}
    if api is not None and api.lower() not in known:
        from kmini.broker.faults.rule_values import nearest

        raise click.UsageError(f"--api {api}: Kafka has no such API{nearest(api, known.values())}")
    return EntrySelection(
        None if api is None else known[api.lower()],
        topic=topic,
        client_id=client,
        group=group,
        where=_has_failed if errors else None,
    )


def _has_failed(entry: JournalEntry) -> bool:
    """Whether a request got an error, or no answer that was due."""
    from kmini.trace.observer import NO_ANSWER_IS_DUE

    return bool(entry.errors) or entry.closed not in (None, NO_ANSWER_IS_DUE)


def _address(text: str, option: str) -> tuple[str, int]:
    from kmini.broker.network.listeners import parse_endpoint

    try:
        endpoint = parse_endpoint(f"TRACE://{text}")
    except ValueError:
        raise click.UsageError(f"{option} {text}: HOST:PORT was expected, and no file has this name") from None
    return endpoint.host or "127.0.0.1", endpoint.port


def _read_rules(path: str) -> object:
    import json

    try:
        rules = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"--fault {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise click.UsageError(f"--fault {path} is no JSON: {error}") from error
    return rules
