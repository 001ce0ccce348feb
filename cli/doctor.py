"""`kmini doctor`: look for what is wrong with a Kafka of any make, and say what to change."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from kmini.cli.broker_call import address_option, command_config_option, remembered_security, timeout_option
from kmini.cli.escaping import escaped
from kmini.cli.tables import format_option, show
from kmini.testkit.phrases import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kmini.doctor.findings import Finding

TIMEOUT_MS = 5_000
COLUMNS = ("check", "level", "finding", "text", "change")
MOST_ALIKE = 10
"""Findings of one name that are printed as text, at most."""
INDENT = 19
"""Columns before the text on a terminal."""


@click.command()
@click.argument("address", metavar="[HOST:PORT]", required=False)
@format_option
@address_option
@command_config_option
@timeout_option(TIMEOUT_MS, "How long to wait for each connection and each answer.")
def doctor(address: str | None, output: str, bootstrap_server: str, timeout_ms: int) -> None:
    """Look for what is wrong with a Kafka, of any make, and say what to change.

    It asks HOST:PORT as a client does, and changes nothing. Exit code: 0 without a failure, 1 with one, 3 if nothing
    answers. Levels: ok, warn, fail.

    \b
    kmini doctor localhost:9092
    kmini doctor localhost:9092 --format json | jq '.[] | select(.level == "fail")'
    """
    from kmini.client import parse_addresses
    from kmini.doctor.examination import examine, exit_code

    try:
        given = parse_addresses(address or bootstrap_server)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    security = remembered_security()
    findings = asyncio.run(examine(given, timeout_ms=timeout_ms, sasl=security.sasl, tls=security.tls))
    printed = findings if output == "json" else _shortened(findings)
    if output == "table" and sys.stdout.isatty():
        _draw(printed)
    else:
        show(COLUMNS, [(one.check, one.level, one.name, one.text, one.change or None) for one in printed], output)
    left_out = len(findings) - len(printed)
    more = f"; {left_out} more like those printed, with --format json" if left_out else ""
    click.echo(f"kmini: {_summary(findings)}{more}", err=True)
    sys.exit(exit_code(findings))


def _shortened(findings: Sequence[Finding]) -> list[Finding]:
    """The first findings of each name."""
    counts: Counter[str] = Counter()
    kept = []
    for finding in findings:
        counts[finding.name] += 1
        if counts[finding.name] <= MOST_ALIKE:
            kept.append(finding)
    return kept


def _summary(findings: Sequence[Finding]) -> str:
    levels = [one.level for one in findings]
    return f"{counted(levels.count('fail'), 'failure')}, {counted(levels.count('warn'), 'warning')}"


def _draw(findings: Sequence[Finding]) -> None:
    """One paragraph for each finding, wrapped at the width of the terminal."""
    import shutil
    import textwrap

    width = max(shutil.get_terminal_size().columns, INDENT + 40)
    check = ""
    for one in findings:
        first = one.check if one.check != check else ""
        check = one.check
        level = one.level.upper() if one.level == "fail" else one.level
        head = f" {first:<11}{level:<7}"
        for text, begin in ((one.text, head), (one.change, " " * INDENT + "-> ")):
            if text:
                lines = textwrap.wrap(
                    escaped(text),
                    width,
                    initial_indent=begin,
                    subsequent_indent=" " * INDENT,
                    break_on_hyphens=False,
                    break_long_words=False,
                )
                click.echo("\n".join(lines))
