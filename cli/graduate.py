"""`kmini graduate`: move to Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kmini.cli.progress import progress
from kmini.cli.tables import format_option, show

if TYPE_CHECKING:
    from kmini.graduation.graduate import Report

MAX_NODE_ID = 2**31 - 1


@click.command()
@click.argument("data_dir", metavar="DATA_DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("out", metavar="OUT", type=click.Path())
@click.option("--link", is_flag=True, help="Hard-link sealed segments instead of copying them.")
@click.option(
    "--config",
    "properties_file",
    metavar="server.properties",
    type=click.Path(dir_okay=False),
    help="The settings of kmini serve; OUT/server.properties is made from them.",
)
@click.option(
    "--node-id",
    metavar="NUMBER",
    type=click.IntRange(0, MAX_NODE_ID),
    help="Id of the new node.  [default: that of --config, else 1, as in Kafka's own server.properties]",
)
@format_option
def graduate(
    data_dir: str, out: str, link: bool, properties_file: str | None, node_id: int | None, output: str
) -> None:
    """Make a directory that Apache Kafka 4.3 or later starts from, from a data directory of kmini.

    DATA_DIR is the directory of kmini serve --data-dir, with one broker or several. No broker may run on it, and it is
    not changed. OUT must be empty or missing. Records, topics with their ids and settings, log start offsets,
    committed offsets, transactional ids, access rules, SCRAM users and quotas are kept. Flagged tombstones become null
    values. No Java is needed.

    \b
    kmini graduate data /var/lib/kafka
    kmini graduate --link data kafka-data          in seconds, on the same file system
    kmini graduate --config server.properties data kafka-data

    Then either of these starts Kafka:

    \b
    bin/kafka-server-start.sh OUT/server.properties
    bin/kafka-server-start.sh config/server.properties --override log.dirs=OUT
    """
    import time

    from kmini.cli.option_values import read_properties
    from kmini.graduation.graduate import graduate as make
    from kmini.graduation.source import Refused

    configured = read_properties(properties_file) if properties_file is not None else None
    try:
        with progress("graduating", total=None, in_bytes=True) as update:
            report = make(
                data_dir,
                out,
                now_ms=time.time_ns() // 1_000_000,
                link=link,
                node_id=node_id,
                configured=configured,
                on_progress=lambda copied: update(copied.done, copied.total),
            )
    except Refused as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or out}: {error.strerror or error}") from error
    if output == "json":
        _print_json(report)
    else:
        _print(report, has_config=configured is not None)


def _print(report: Report, *, has_config: bool) -> None:
    rows = [
        (one.name, one.partitions, one.offsets, one.copied_bytes, one.linked_bytes, one.tombstones)
        for one in report.topics
    ]
    show(("topic", "partitions", "offsets", "copied bytes", "linked bytes", "tombstones"), rows, "table")
    if report.changed_settings:
        show(
            ("setting", "of", "value", "becomes", "because"),
            [(one.name, one.resource, one.value, one.becomes, one.reason) for one in report.changed_settings],
            "table",
        )
    for note in _notes(report, has_config=has_config):
        click.echo(note)


def _notes(report: Report, *, has_config: bool) -> Iterator[str]:
    """Yield further notes, a sentence each."""
    numbers = [
        (report.groups, "consumer groups"),
        (report.committed_offsets, "committed offsets"),
        (report.transactional_ids, "transactional ids"),
        (report.acls, "access rules"),
        (report.scram_credentials, "SCRAM credentials"),
        (report.delegation_tokens, "delegation tokens"),
        (report.quotas, "entities with quotas"),
    ]
    others = [f"{name}: {number}" for number, name in numbers if number]
    if others:
        yield f"Taken over as well: {', '.join(others)}."
    if (report.acls or report.scram_credentials) and not has_config:
        yield (
            "Access rules and users are in force where server.properties asks for them: give --config, or see "
            "docs/graduation.md."
        )
    tombstones = sum(one.tombstones for one in report.topics)
    if tombstones:
        yield f"{tombstones} flagged tombstone{' has' if tombstones == 1 else 's have'} a null value now."
    expired = [f"{one.expired} of {one.name}" for one in report.topics if one.expired]
    if expired:
        yield (
            f"Older than their retention.ms, so Apache Kafka deletes them soon after its start: {', '.join(expired)} "
            "(offsets). Raise retention.ms of the topic before, if they shall stay."
        )
    if report.open_transactions:
        names = ", ".join(map(str, report.open_transactions))
        yield f"A transaction was open in {names}: Kafka aborts it when its time is over, or its producer comes back."
    if report.from_followers:
        names = ", ".join(map(str, report.from_followers))
        yield f"The leader's log was not there, so a follower's was taken: {names}."
    for path in report.left_behind:
        yield f"Left behind, because no topic has it: {path}"
    yield f"Start Apache Kafka: bin/kafka-server-start.sh {report.out}/server.properties"


def _print_json(report: Report) -> None:
    import json

    content = report._asdict()
    content["topics"] = [one._asdict() for one in report.topics]
    content["changed_settings"] = [one._asdict() for one in report.changed_settings]
    for name in ("open_transactions", "from_followers"):
        content[name] = [f"{one.topic}-{one.partition}" for one in content[name]]
    click.echo(json.dumps(content))
