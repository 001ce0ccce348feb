"""`kmini audit`: find records that should be gone from a log directory and are still there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from kmini.cli import Sentences
from kmini.cli.broker_call import remembered_timeout_option
from kmini.cli.extras import need_extra
from kmini.cli.option_values import parse_partitions, parse_time
from kmini.cli.progress import progress
from kmini.cli.tables import show

if TYPE_CHECKING:
    from kmini.client import Client
    from kmini.pipeline.audit.report import AuditReport
    from kmini.pipeline.audit.topic_policy import TopicPolicy
    from kmini.pipeline.logs.log_dir import LogDir

SPARK_FROM = "64GiB"
"""Size from which Spark is used if possible; a smaller audit finishes sooner on one core."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)

Topics = list[tuple[str, Collection[int] | None]]


@click.command(cls=Sentences)
@click.argument("log_dir", metavar="LOG_DIR", type=click.Path(exists=True, file_okay=False))
@click.option("--topic", "topics", metavar="TOPIC[:P,...]", multiple=True, help="Only this topic, or partitions of it.")
@click.option("--key", "keys", metavar="TEXT", multiple=True, help="A key that no record may have.")
@click.option("--key-hex", "hex_keys", metavar="HEX", multiple=True, help="The same, as hexadecimal digits.")
@click.option(
    "--keys-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Such keys, one on each line.",
)
@click.option(
    "--topic-config",
    "topic_configs",
    metavar="[TOPIC:]KEY=VALUE",
    multiple=True,
    help="A setting of a topic, or of all topics, that is not stored beside the records.",
)
@click.option(
    "--broker-config",
    "broker_configs",
    metavar="KEY=VALUE|FILE",
    multiple=True,
    help="A setting of the broker, or its properties file: the defaults of topics.",
)
@click.option("-b", "--bootstrap-server", metavar="HOST:PORT", help="Ask this running broker for the settings.")
@click.option("--command-config", metavar="FILE", help="Settings of that client, as a properties file.")
@remembered_timeout_option
@click.option("--now", metavar="TIME", help="Audit as of this time, as 2026-01-31T12:00:00Z.  [default: the clock]")
@click.option(
    "--grace",
    metavar="DURATION",
    default="2m",
    show_default=True,
    help="Allowed excess over a bound: time for the cleaner to run, and for files to be removed.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option("--partitions", "each_partition", is_flag=True, help="A row for each partition instead of each topic.")
@click.option("--parquet", "parquet_folder", metavar="FOLDER", help="Write the result as Parquet files, too.")
@click.option("--pictures", "picture_folder", metavar="FOLDER", help="Draw a picture of each compacted topic.")
@click.option(
    "--picture-format",
    type=click.Choice(("svg", "png")),
    default="svg",
    show_default=True,
    help="Format of the pictures.",
)
@click.option("--spark/--no-spark", "spark", default=None, help="Use Spark or this process.  [default: by size]")
@click.option(
    "--spark-from", metavar="SIZE", default=SPARK_FROM, show_default=True, help="Use Spark from this size on."
)
@click.option(
    "--spark-master",
    metavar="URL",
    default="local[*]",
    show_default=True,
    help="Master URL of Spark; spark-submit overrides it.",
)
def audit(
    log_dir: str,
    topics: tuple[str, ...],
    keys: tuple[str, ...],
    hex_keys: tuple[str, ...],
    keys_file: str | None,
    topic_configs: tuple[str, ...],
    broker_configs: tuple[str, ...],
    bootstrap_server: str | None,
    command_config: str | None,
    now: str | None,
    grace: str,
    output: str,
    each_partition: bool,
    parquet_folder: str | None,
    picture_folder: str | None,
    picture_format: str,
    spark: bool | None,
    spark_from: str,
    spark_master: str,
) -> None:
    """Find records that should be gone from the files of a log directory and are still there.

    LOG_DIR is a data directory of kmini, a log directory of Apache Kafka, or the folder of one partition; a broker may
    be running on it. It is not changed. The audit reads every record of compacted topics, uses no index, and reports:

    \b
    - values that were superseded, deleted or aborted longer ago than max.compaction.lag.ms allows (KIP-354)
    - tombstones and transaction markers past their delete horizon (KIP-534)
    - files marked as deleted that are still there
    - with --key, --key-hex, --keys-file: records with these keys, in all topics and all files
    - how dirty each log is, and how much a pass of the cleaner would free
    - damage, by file and position

    The exit code is 0 if every promise is kept, 1 if there are violations, 2 for wrong usage.

    \b
    kmini audit data
    kmini audit data --key alice --key bob --topic profiles
    kmini audit /var/lib/kafka --bootstrap-server broker:9092 --pictures audit --parquet audit
    kmini audit /var/lib/kafka --topic-config max.compaction.lag.ms=518400000 --format json
    """
    selected = _selected_topics(topics)
    parameters = (_now_ms(now), _milliseconds("--grace", grace), _all_keys(keys, hex_keys, keys_file))
    threshold = _bytes("--spark-from", spark_from)
    need_extra("audit", "pyarrow", "numpy", *(("matplotlib",) if picture_folder else ()))
    from kmini.pipeline.audit import Scope

    scope = Scope(*parameters)
    directory, configs = _open(log_dir), (broker_configs, topic_configs)
    policies, default, source = _policies(directory, selected, *configs, bootstrap_server, command_config)
    if not source and not topic_configs and not scope.keys:
        sources = "--topic-config, or --bootstrap-server, was expected"
        raise click.UsageError(f"nothing in or above {log_dir} says which settings its topics have: {sources}")
    report = _run(_engine(spark, spark_master, directory, threshold), directory, scope, policies, default, selected)
    report.notes[:0] = _about_settings(report, policies, source)
    _write_files(report, parquet_folder, picture_folder, picture_format)
    _print(report, output, each_partition)
    if not report.is_clean:
        raise click.exceptions.Exit(1)


# --- arguments


def _selected_topics(texts: tuple[str, ...]) -> Topics:
    selected: Topics = []
    for text in texts:
        topic, partitions = parse_partitions(text)
        if any(topic == name for name, _ in selected):
            raise click.UsageError(f"--topic {text}: {topic} is named twice")
        selected.append((topic, partitions))
    return selected


def _now_ms(text: str | None) -> int:
    import time

    return int(time.time() * 1000) if text is None else parse_time("--now", text)


def _milliseconds(option: str, text: str) -> int:
    from kmini.broker.clock import milliseconds

    try:
        return milliseconds(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _bytes(option: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise click.UsageError(f"{option} {text}: a size was expected, as in 64GiB")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def _all_keys(texts: tuple[str, ...], hex_texts: tuple[str, ...], file: str | None) -> tuple[bytes, ...]:
    keys = [text.encode() for text in texts]
    for text in hex_texts:
        try:
            keys.append(bytes.fromhex(text.removeprefix("0x")))
        except ValueError:
            raise click.UsageError(f"--key-hex {text}: hexadecimal digits were expected") from None
    if file is not None:
        try:
            with open(file, "rb") as lines:
                keys += [key for line in lines if (key := line.rstrip(b"\r\n"))]
        except OSError as error:
            raise click.UsageError(f"cannot read {file}: {error.strerror}") from error
        if not keys:
            raise click.UsageError(f"--keys-file {file}: there is no key in it")
    return tuple(dict.fromkeys(keys))


# --- policies


def _policies(
    log_dir: LogDir,
    selected: Topics,
    broker_configs: tuple[str, ...],
    topic_configs: tuple[str, ...],
    bootstrap_server: str | None,
    command_config: str | None,
) -> tuple[dict[str, TopicPolicy], TopicPolicy, str]:
    from kmini.cli.audit_policies import policies_of

    broker_answers = None
    if bootstrap_server is not None:
        names = [name for name, _ in selected] or sorted({each.topic for each in log_dir.partitions() if not each.mark})
        broker_answers = _broker_answers(bootstrap_server, command_config, names)
    elif command_config:
        raise click.UsageError("--command-config is for --bootstrap-server")
    return policies_of(
        log_dir, broker_configs=broker_configs, topic_configs=topic_configs, broker_answers=broker_answers
    )


def _about_settings(report: AuditReport, policies: Mapping[str, TopicPolicy], source: str) -> Iterator[str]:
    from kmini.cli.audit_policies import CLUSTER_METADATA

    if source:
        yield f"settings of topics: from {source}"
    known = {*policies, CLUSTER_METADATA}
    if unknown := sorted({one.topic for one in report.partitions if not one.mark} - known):
        shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
        yield f"no settings were found of {shown}: taken to be the broker's defaults"


def _broker_answers(bootstrap_server: str, command_config: str | None, names: list[str]) -> dict[str, dict[str, str]]:
    """Ask a broker for the settings of these topics; topics that it does not know are left out."""
    from kmini.cli.broker_call import ask
    from kmini.cli.command_config import read_command_config, security_of
    from kmini.client import ConfigResource
    from kmini.protocol.errors import UnknownTopicOrPartition

    async def work(client: Client) -> dict[str, dict[str, str]]:
        found = {}
        for name in names:
            try:
                entries = await client.describe_configs(ConfigResource.topic(name))
            except UnknownTopicOrPartition:
                continue
            found[name] = {entry.name: entry.value for entry in entries if entry.value is not None}
        return found

    security = security_of(command_config, read_command_config(command_config)) if command_config else None
    return ask(bootstrap_server, work, security=security)


# --- running


def _open(log_dir: str) -> LogDir:
    from kmini.pipeline.logs.log_dir import LogDir, NoLogDirectory

    try:
        return LogDir(log_dir)
    except NoLogDirectory as error:
        raise click.UsageError(str(error)) from error


def _engine(spark: bool | None, master: str, log_dir: LogDir, threshold: int) -> Any:
    """A Spark session, or None to audit in this process."""
    if spark is False:
        return None
    if spark is None and _size_of(log_dir) < threshold:
        return None
    try:
        need_extra("spark", "pyspark")
        from kmini.pipeline.session import SparkUnavailableError, spark_session

        try:
            return spark_session("kmini audit", master=master, needs_kafka=False)
        except SparkUnavailableError as error:
            raise click.UsageError(str(error)) from error
    except click.UsageError as error:
        if spark:
            raise
        click.echo(f"kmini: a large directory, audited on one core: {error.message}", err=True)
        return None


def _size_of(log_dir: LogDir) -> int:
    """Bytes of all segments."""
    return sum(segment.size_bytes for folder in log_dir.partitions() for segment in folder.segments)


def _run(
    spark: Any,
    log_dir: LogDir,
    scope: Any,
    policies: dict[str, TopicPolicy],
    default: TopicPolicy,
    topics: Topics,
) -> AuditReport:
    from kmini.pipeline.audit.local_audit import audit_directory

    try:
        if spark is None:
            read_bytes = 0

            def on_bytes(count: int) -> None:
                nonlocal read_bytes
                read_bytes += count
                update(read_bytes)

            with progress("audit", total=_size_of(log_dir), in_bytes=True) as update:
                return audit_directory(log_dir, scope, policies, default=default, topics=topics, on_bytes=on_bytes)
        from kmini.pipeline.audit.spark_audit import audit_on_spark

        return audit_on_spark(spark, log_dir, scope, policies, default=default, topics=topics)
    except OSError as error:
        raise click.ClickException(f"{error.filename or log_dir.path}: {error.strerror or error}") from error


# --- output


def _written(folder: str, write: Callable[[], object]) -> None:
    try:
        write()
    except OSError as error:
        raise click.ClickException(f"cannot write to {folder}: {error.strerror or error}") from error


def _write_files(
    report: AuditReport, parquet_folder: str | None, picture_folder: str | None, picture_format: str
) -> None:
    """Write the Parquet files and the pictures that are requested."""
    if parquet_folder:
        from kmini.pipeline.audit.rendering import write_parquet

        _written(parquet_folder, lambda: write_parquet(report, parquet_folder))
    if picture_folder:
        from kmini.pipeline.audit.age_charts import draw_charts

        _written(picture_folder, lambda: draw_charts(report, picture_folder, picture_format))


def _print(report: AuditReport, output: str, each_partition: bool) -> None:
    if output == "json":
        import json

        click.echo(json.dumps(report.as_dict()))
        return
    from kmini.pipeline.audit import rendering

    show(rendering.LOG_COLUMNS, rendering.log_rows(report, each_partition=each_partition), "table")
    if report.keys:
        show(rendering.KEY_COLUMNS, rendering.key_rows(report), "table")
    if report.findings:
        show(rendering.FINDING_COLUMNS, rendering.finding_rows(report, report.findings), "table")
    for note in report.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(rendering.summary(report), err=True)
