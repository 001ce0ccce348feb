"""`kmini delete-records`, and `kafka-delete-data`, the name that KIP-107 gives the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from kmini.cli import Sentences
from kmini.cli.broker_call import ask, bootstrap_option, error_text
from kmini.cli.command_config import Security, read_command_config, security_of
from kmini.cli.option_values import MAX_PARTITION, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kmini.client import Client

MAX_OFFSET = 2**63 - 1
MAX_TIMEOUT_MS = 2**31 - 1

JSON_SHAPE = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 3}], "version": 1}'

Offsets = dict[tuple[str, int], int]


@click.command(cls=Sentences)
@click.argument("targets", metavar="[TOPIC:PARTITION:OFFSET...]", nargs=-1)
@click.option("--before", metavar="TIME", help="Delete what is older, as 2026-01-31T12:00:00Z, of TOPIC[:PARTITION]...")
@click.option("--offset-json-file", metavar="FILE", help=f"The same in Kafka's JSON: {JSON_SHAPE}")
@bootstrap_option
def delete_records(
    targets: tuple[str, ...], before: str | None, offset_json_file: str | None, bootstrap_server: str
) -> None:
    """Delete the records before an offset, which becomes the log start offset.

    The offset -1 stands for the high watermark. With --before that offset is looked up: it is that of the
    first record that is not older. Each partition's outcome is a line: topic, partition, and the low watermark or what
    went wrong. The exit code is 1 if anything did.

    \b
    kmini delete-records orders:0:1000
    kmini delete-records orders:0:-1 orders:1:-1
    kmini delete-records --before 2026-01-31T12:00:00Z orders invoices:0
    kmini delete-records --offset-json-file offsets.json
    """
    if before is not None:
        if offset_json_file:
            raise click.UsageError("--before looks the offsets up; --offset-json-file gives them")
        timestamp_ms = parse_time("--before", before)
        places = [_parse_place(target) for target in targets]
        if not places:
            raise click.UsageError("nothing to delete: TOPIC or TOPIC:PARTITION was expected")
        offsets = ask(bootstrap_server, lambda client: _offsets_at(client, places, timestamp_ms))
        _delete(bootstrap_server, offsets)
        return
    offsets = _read_offsets(offset_json_file) if offset_json_file else {}
    for target in targets:
        partition, offset = _parse_target(target)
        _add(offsets, partition, offset)
    if not offsets:
        raise click.UsageError("nothing to delete: TOPIC:PARTITION:OFFSET or --offset-json-file was expected")
    _delete(bootstrap_server, offsets)


@click.command(cls=Sentences, name="kafka-delete-data", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bootstrap-server", metavar="HOST:PORT", required=True, help="The broker to ask.")
@click.option("--command-config", metavar="FILE", help="Settings of the client, as a properties file.")
@click.option(
    "--offset-json-file",
    "--delete-offset-json-file",
    "offset_json_file",
    metavar="FILE",
    required=True,
    help=f"Which records to delete: {JSON_SHAPE}",
)
def kafka_delete_data(bootstrap_server: str, command_config: str | None, offset_json_file: str) -> None:
    """Delete the records before given offsets (KIP-107).

    Of the client's settings request.timeout.ms, default.api.timeout.ms, client.id and those of SASL are heeded.

    \b
    kafka-delete-data --bootstrap-server 127.0.0.1:9092 --offset-json-file offsets.json
    """
    offsets = _read_offsets(offset_json_file)
    if not offsets:
        raise click.UsageError(f"{offset_json_file} names no partition")
    settings = read_command_config(command_config) if command_config else {}
    _delete(
        bootstrap_server,
        offsets,
        timeout_ms=_timeout_ms(settings),
        client_id=settings.get("client.id", "kafka-delete-data"),
        security=security_of(command_config or "", settings),
    )


def _delete(
    bootstrap_server: str,
    offsets: Offsets,
    *,
    timeout_ms: int | None = None,
    client_id: str = "kmini-cli",
    security: Security | None = None,
) -> None:
    results = ask(
        bootstrap_server,
        lambda client: client.delete_records_before(offsets),
        timeout_ms=timeout_ms,
        client_id=client_id,
        security=security,
    )
    for (topic, partition), (low_watermark, error) in results.items():
        click.echo(f"{topic} {partition} {low_watermark if error is None else error_text(error)}")
    if any(error is not None for _, error in results.values()):
        raise click.exceptions.Exit(1)


async def _offsets_at(client: Client, places: Iterable[tuple[str, int | None]], timestamp_ms: int) -> Offsets:
    """The offset of the first record of each partition that is not older; else the end offset (the KIP's recipe). The
    ends are read first: later records may be younger, and must stay."""
    partitions: dict[tuple[str, int], None] = {}
    for topic, number in places:
        known = await client.partitions(topic)
        for partition in known if number is None else [(topic, number)]:
            partitions[partition[0], partition[1]] = None
    end = await client.end(partitions)
    found = await client.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    return {partition: at.offset if at.offset >= 0 else end[partition] for partition, at in found.items()}


# --- arguments and files


def _parse_place(text: str) -> tuple[str, int | None]:
    """Parse a topic, or a topic and a partition."""
    topic, separator, partition = text.partition(":")
    try:
        if not topic:
            raise ValueError
        return topic, _whole(partition, 0, MAX_PARTITION) if separator else None
    except ValueError:
        raise click.UsageError(f"{text}: TOPIC or TOPIC:PARTITION was expected with --before") from None


def _parse_target(text: str) -> tuple[tuple[str, int], int]:
    topic, _, rest = text.partition(":")
    partition, separator, offset = rest.partition(":")
    try:
        if not topic or not separator:
            raise ValueError
        return (topic, _whole(partition, 0, MAX_PARTITION)), _whole(offset, -1, MAX_OFFSET)
    except ValueError:
        raise click.UsageError(f"{text}: TOPIC:PARTITION:OFFSET was expected, as in orders:0:1000") from None


def _whole(value: object, smallest: int, largest: int) -> int:
    """Parse a whole number from a text or from JSON. ValueError for anything else."""
    number = int(value) if isinstance(value, str) and value.isascii() else value
    if type(number) is not int or not smallest <= number <= largest:
        raise ValueError
    return number


def _add(offsets: Offsets, partition: tuple[str, int], offset: int) -> None:
    if partition in offsets:
        raise click.UsageError(f"{partition[0]}:{partition[1]} is named twice")
    offsets[partition] = offset


def _read_offsets(path: str) -> Offsets:
    """Read the offsets of Kafka's JSON file."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"{path} is no JSON ({error}): {JSON_SHAPE} was expected") from error
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise click.UsageError(f"{path} has no list of partitions: {JSON_SHAPE} was expected")
    if type(content.get("version", 1)) is not int or content.get("version", 1) != 1:
        raise click.UsageError(f"{path} has version {content['version']}: version 1 was expected")
    offsets: Offsets = {}
    for number, entry in enumerate(content["partitions"], 1):
        partition, offset = _parse_entry(path, number, entry)
        _add(offsets, partition, offset)
    return offsets


def _parse_entry(path: str, number: int, entry: Any) -> tuple[tuple[str, int], int]:
    try:
        topic = entry["topic"]
        if not isinstance(topic, str) or not topic:
            raise ValueError
        return (topic, _whole(entry["partition"], 0, MAX_PARTITION)), _whole(entry["offset"], -1, MAX_OFFSET)
    except (KeyError, TypeError, ValueError):
        expected = '{"topic": "orders", "partition": 0, "offset": 3}'
        raise click.UsageError(f"{path}: partition {number} of the list: {expected} was expected") from None


def _timeout_ms(settings: Mapping[str, str]) -> int:
    """The time for the whole call in milliseconds. Kafka's admin client gives it 60 s, and each of its requests 30
    s."""
    for key in ("request.timeout.ms", "default.api.timeout.ms"):
        text = settings.get(key)
        if text is not None:
            try:
                return max(1, _whole(text, 0, MAX_TIMEOUT_MS))
            except ValueError:
                raise click.UsageError(f"{key}={text}: a number of milliseconds was expected") from None
    return 30_000
