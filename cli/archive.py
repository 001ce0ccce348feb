"""`kmini archive` and `kmini replay`: copy topics into Parquet files, and back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kmini.cli.broker_call import TIMEOUT_MS, address_option, timeout_option
from kmini.cli.extras import need_extra
from kmini.cli.option_values import read_properties
from kmini.cli.progress import progress
from kmini.testkit.phrases import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kmini.pipeline.clients import Kafka

PARQUET_CODECS = ("none", "snappy", "gzip", "lz4", "zstd")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NEEDED = ("pyspark", "pyarrow", "confluent_kafka")

config_option = click.option(
    "--command-config",
    metavar="FILE",
    envvar="KMINI_COMMAND_CONFIG",
    help="Settings of the clients, as a properties file: security.protocol, sasl.jaas.config, ssl.truststore.location.",
)
master_option = click.option(
    "--master",
    metavar="URL",
    default="local[*]",
    show_default=True,
    help="Master URL of Spark; spark-submit overrides it.",
)


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.argument("archive_path", metavar="OUT")
@click.option("--log-dir", metavar="DIR", help="Read the files of this log directory, and ask no broker for records.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="read_committed leaves out records of aborted and of open transactions.",
)
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Continue after records that were deleted before they were archived, or are damaged.",
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(PARQUET_CODECS),
    default="zstd",
    show_default=True,
    help="Compression of the files.",
)
@timeout_option()
@master_option
@config_option
@address_option
@click.pass_context
def archive(
    context: click.Context,
    topics: tuple[str, ...],
    archive_path: str,
    log_dir: str | None,
    isolation_level: str,
    allow_loss: bool,
    compression: str,
    timeout_ms: int,
    master: str,
    command_config: str | None,
    bootstrap_server: str,
) -> None:
    """Append the new records of these topics to the directory OUT as Parquet files; the first time, all records.

    The archive keeps offsets, timestamps, keys, values, headers and tombstones, and the settings to create the topic
    again. An interrupted run can be repeated; no record is in the archive twice. Needs the extra
    spark (pip install '.[spark]' in a clone of kmini) and Java.

    With --log-dir no broker is asked for records; --bootstrap-server then names the broker that gives the topics'
    settings. Such an archive is taken once and as a whole.

    \b
    kmini archive orders invoices backup
    kmini archive orders backup --log-dir data/broker-1
    """
    with _sentences():
        from kmini.pipeline.archives.archive import archive_log_dir, archive_topic
        from kmini.pipeline.archives.cluster_topics import Topics

        kafka = _kafka(bootstrap_server, command_config)
        is_broker_named = context.get_parameter_source("bootstrap_server") is click.core.ParameterSource.COMMANDLINE
        if log_dir is None or is_broker_named:
            for topic in topics:
                Topics(kafka, timeout_ms=timeout_ms).get(topic)  # fails before a JVM starts
        spark = _session("kmini-archive", master)
        options: dict[str, Any] = {
            "isolation_level": isolation_level,
            "allow_loss": allow_loss,
            "codec": compression,
        }
        for topic in dict.fromkeys(topics):
            with progress(f"archiving {topic}", total=None):
                if log_dir is not None:
                    settings_from = kafka if is_broker_named else None
                    done = archive_log_dir(spark, topic, archive_path, log_dir, settings_from, **options)
                else:
                    done = archive_topic(spark, topic, archive_path, kafka, **options)
            new_records, all_records = counted(done.new_records, "new record"), counted(done.records, "record")
            click.echo(f"{topic}: {new_records}, {all_records} in {archive_path}")
            if done.damaged:
                click.echo(f"{topic}: {done.damaged} damaged place(s) left out; kmini log dump shows them", err=True)


@click.command()
@click.argument("archive_path", metavar="DIR")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@click.option("--topic", "to", metavar="NAME", help="Write to this topic; allowed for one archived topic.")
@click.option("--resume", is_flag=True, help="Continue an interrupted replay.")
@click.option("--with-offsets", is_flag=True, help="Add the header kmini.offset, the archived offset.")
@click.option(
    "--null-tombstones", is_flag=True, help="Give tombstones with a value (KIP-87) a null value, as Kafka knows them."
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(CODECS),
    default="lz4",
    show_default=True,
    help="Compression of the batches.",
)
@click.option(
    "--replication-factor",
    metavar="N",
    type=click.IntRange(min=1, max=32767),
    help="Replicas of created topics.  [default: the cluster's]",
)
@timeout_option(default=60_000, text="How long to wait for an acknowledgement.")
@master_option
@config_option
@address_option
def replay(
    archive_path: str,
    topics: tuple[str, ...],
    to: str | None,
    resume: bool,
    with_offsets: bool,
    null_tombstones: bool,
    compression: str,
    replication_factor: int | None,
    timeout_ms: int,
    master: str,
    command_config: str | None,
    bootstrap_server: str,
) -> None:
    """Write the topics of the archive DIR, or some of them, back: created with their partitions and settings, every
    record in its partition, in its order and with its timestamp.

    An existing topic must have the same number of partitions and no records; with --resume it may hold the beginning
    of this replay. Needs the extra spark (pip install '.[spark]' in a clone of kmini) and Java.

    \b
    kmini replay backup
    kmini replay backup orders --topic orders-again --with-offsets
    """
    with _sentences():
        from kmini.pipeline.archives.archive_files import archived_topics, get_description
        from kmini.pipeline.archives.cluster_topics import Topics
        from kmini.pipeline.archives.replay import replay_topic

        kafka = _kafka(bootstrap_server, command_config)
        names = list(dict.fromkeys(topics)) or archived_topics(archive_path)
        if to is not None and len(names) > 1:
            raise click.UsageError(f"--topic {to}: these are {len(names)} topics: {', '.join(names)}; name one")
        for name in names:
            get_description(archive_path, name)  # fails before a JVM starts, and before a broker is called
        Topics(kafka, timeout_ms=min(timeout_ms, TIMEOUT_MS)).find(to or next(iter(names), ""))
        spark = _session("kmini-replay", master)
        for name in names:
            with progress(f"replaying {name}", total=None):
                done = replay_topic(
                    spark,
                    archive_path,
                    name,
                    kafka,
                    to=to,
                    resume=resume,
                    with_offsets=with_offsets,
                    null_tombstones=null_tombstones,
                    compression=compression,
                    replication_factor=replication_factor or -1,
                    stall_ms=timeout_ms,
                )
            found = f", {done.found} were there" if done.found else ""
            click.echo(f"{done.topic}: {counted(done.written, 'record')} written{found}")
            for note in done.notes:
                click.echo(f"{done.topic}: {note}", err=True)


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn errors of archives and of Spark into sentences."""
    need_extra("spark", *NEEDED)
    from kmini.pipeline.archives.archive_files import ArchiveError, NotAnArchive
    from kmini.pipeline.clients import SettingsError
    from kmini.pipeline.session import SparkUnavailableError

    try:
        yield
    except (SparkUnavailableError, NotAnArchive, SettingsError) as error:
        raise click.UsageError(str(error)) from error
    except ArchiveError as error:
        raise click.ClickException(str(error)) from error


def _session(name: str, master: str) -> SparkSession:
    from kmini.pipeline.session import spark_session

    # The command reports a failure on one line; Spark would report it on three hundred.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    return spark_session(name, master=master, settings={"spark.log.level": "FATAL"})


def _kafka(bootstrap_server: str, command_config: str | None) -> Kafka:
    from kmini.pipeline.clients import Kafka

    settings: dict[str, Any] = read_properties(command_config) if command_config else {}
    return Kafka(bootstrap_server, settings)
