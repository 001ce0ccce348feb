"""`kmini pipeline`: run stages of Spark that topics join."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from kmini.cli import Program, Sentences
from kmini.cli.broker_call import timeout_option
from kmini.cli.extras import need_extra
from kmini.cli.log_output import log_format_option, log_to_stderr
from kmini.cli.option_values import parse_setting, read_properties
from kmini.cli.tables import format_option, show, time_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kmini.pipeline.stages.pipeline import Pipeline
    from kmini.pipeline.stages.pipeline_progress import Progress, Watcher


@click.command(
    cls=Program,
    commands_at={
        "jars": ("kmini.cli.pipeline:jars", "Fetch the jars that Spark needs to speak to Kafka."),
        "run": ("kmini.cli.pipeline:run", "Run the pipeline that a Python file declares."),
        "status": ("kmini.cli.pipeline:status", "Show how far a pipeline is, without Spark."),
        "show": ("kmini.cli.pipeline:show_pipeline", "Show a pipeline without running it."),
    },
)
def pipeline() -> None:
    """Run stages of Spark, joined by topics, and purge the records that all consumers processed (docs/pipelines.md)."""


file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False))
bootstrap_option = click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap_server",
    metavar="HOST:PORT",
    envvar="KAFKA_BOOTSTRAP_SERVERS",
    help="Overrides the file; without either 127.0.0.1:9092.",
)
clients_option = click.option(
    "--command-config",
    metavar="FILE",
    envvar="KMINI_COMMAND_CONFIG",
    help="Settings of the clients, as a properties file: security.protocol, sasl.jaas.config, ...",
)
directory_option = click.option(
    "--directory", metavar="DIR", help="Folder that relative paths in the file start from; default: its own."
)


@click.command(cls=Sentences)
@file_argument
@bootstrap_option
@clients_option
@click.option("--available-now", is_flag=True, help="End when every stage has processed all present records.")
@click.option("--apply", is_flag=True, help="Set the declared settings of topics that exist.")
@click.option("--take-over", is_flag=True, help="Purge topics that another pipeline has purged so far.")
@directory_option
@click.option("--master", metavar="MASTER", help="The Spark cluster: local[2], spark://HOST:PORT; default: local[*].")
@click.option("-c", "--conf", "settings", metavar="KEY=VALUE", multiple=True, help="A setting of the Spark session.")
@timeout_option(text="How long to wait for the brokers before Spark is started.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show the progress.")
@log_format_option
def run(
    file: str,
    bootstrap_server: str | None,
    command_config: str | None,
    available_now: bool,
    apply: bool,
    take_over: bool,
    directory: str | None,
    master: str | None,
    settings: tuple[str, ...],
    timeout_ms: int,
    quiet: bool,
    log_format: str,
) -> None:
    """Run the pipeline that a Python file declares, until SIGINT or SIGTERM.

    The stages are then stopped in order, and what they committed is purged. When a stage fails the others are stopped
    too, and the exit code is 1.

    \b
    kmini pipeline run pipeline.py
    kmini pipeline run pipeline.py --master spark://head:7077 -c spark.executor.memory=2g
    kmini pipeline run pipeline.py --available-now -b broker:9092 --command-config client.properties
    """
    from dataclasses import replace

    declared = _load_for(file, bootstrap_server, command_config, directory)
    overrides = {"spark.master": master} if master else {}
    overrides |= dict(parse_setting("-c", text) for text in settings)
    declared = replace(declared, spark_settings={**declared.spark_settings, **overrides})
    log_to_stderr(log_format)
    _require_broker(declared, timeout_ms)
    _run(partial(declared.run, available_now=available_now, apply=apply, take_over=take_over), quiet=quiet)


def _require_broker(declared: Pipeline, timeout_ms: int) -> None:
    """End the command if no broker answers, before a JVM is started."""
    from kmini.pipeline.admin import Admin, AdminError

    try:
        Admin(declared.kafka, timeout_s=timeout_ms / 1000).cluster_id()
    except AdminError as error:
        raise click.ClickException(f"pipeline {declared.name!r}: {error}") from error


@click.command(cls=Sentences, name="show")
@file_argument
def show_pipeline(file: str) -> None:
    """Show a pipeline: its stages in the order of their data, and the purged topics with their consumers."""
    declared = _load(file)
    stages = [
        (
            stage.name,
            stage.topics_read,
            stage.topic_written or type(stage.writes).__name__.lower(),
            declared.checkpoint_of(stage),
        )
        for stage in declared.in_order()
    ]
    show(("stage", "reads", "writes", "checkpoint"), stages, "table")
    topics = [
        (
            topic.name,
            [*(f"stage {stage.name}" for stage in declared.readers(topic.name))]
            + [f"group {group}" for group in topic.consumer_groups],
        )
        for topic in declared.purged_topics()
    ]
    click.echo()
    show(("purged topic", "when processed by"), topics, "table")


@click.command(cls=Sentences)
def jars() -> None:
    """Fetch the jars that Spark needs to speak to Kafka, unless they are there, and print them.

    They are Spark's Kafka connector, three it needs, and Spark's functions for Avro, 10 MB, of the installed release of
    Spark. They lie in KMINI_SPARK_JARS, or in a folder of that release in the user's cache, where `kmini pipeline run`
    finds them.

    \b
    spark-submit --jars "$(kmini pipeline jars)" pipeline.py
    """
    need_extra("spark", "pyspark")
    from kmini.pipeline.connector import ConnectorError, fetch_connector
    from kmini.pipeline.session import why_unavailable

    if reason := why_unavailable():
        raise click.ClickException(reason)
    try:
        click.echo(",".join(map(str, fetch_connector())))
    except ConnectorError as error:
        raise click.ClickException(str(error)) from error


STAGE_COLUMNS = ("stage", "state", "committed", "committed_at", "planned", "lag", "problem")
TOPIC_COLUMNS = ("topic", "held", "purged_up_to", "purgeable", "waits_for", "owner", "problem")


@click.command(cls=Sentences)
@file_argument
@bootstrap_option
@clients_option
@directory_option
@timeout_option(text="How long to wait for the brokers.")
@format_option
def status(
    file: str,
    bootstrap_server: str | None,
    command_config: str | None,
    directory: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Show how far a pipeline is, running or not, from its checkpoints and the brokers. Spark is not started.

    Of a stage: whether it runs, the last committed batch, a batch that is planned and not committed, and the records
    that no committed batch has. Of a purged topic: the records it holds, the offset that each partition begins with,
    the records that can be purged, the consumers that keep the others, and the pipeline that purges it.

    \b
    kmini pipeline status pipeline.py
    kmini pipeline status pipeline.py --format json -b broker:9092
    """
    from kmini.pipeline.admin import Admin, AdminError
    from kmini.pipeline.stages.pipeline_status import pipeline_status

    declared = _load_for(file, bootstrap_server, command_config, directory)
    try:
        found = pipeline_status(declared, Admin(declared.kafka, timeout_s=timeout_ms / 1000))
    except AdminError as error:
        raise click.ClickException(f"pipeline {declared.name!r}: {error}") from error
    stages = [
        (
            *(one.stage, one.state, one.committed),
            None if one.committed_at_ms is None else time_of(one.committed_at_ms),
            *(one.planned, one.lag, one.problem),
        )
        for one in found.stages
    ]
    topics = [
        (one.topic, one.held, one.purged_up_to, one.purgeable, one.waits_for, one.owner, one.problem)
        for one in found.topics
    ]
    if output == "json":
        import json

        content = {
            "pipeline": found.pipeline,
            "stages": [dict(zip(STAGE_COLUMNS, row, strict=True)) for row in stages],
            "topics": [dict(zip(TOPIC_COLUMNS, row, strict=True)) for row in topics],
        }
        click.echo(json.dumps(content))
        return
    show(STAGE_COLUMNS, stages, "table")
    click.echo()
    show(TOPIC_COLUMNS, topics, "table")


def _load_for(file: str, bootstrap_server: str | None, command_config: str | None, directory: str | None) -> Pipeline:
    """The pipeline of a file, with the options of a command."""
    from dataclasses import replace

    declared = _load(file)
    clients = read_properties(command_config) if command_config else {}
    declared = declared.with_kafka(bootstrap_server or "", clients)
    return replace(declared, directory=directory or declared.directory)


def _load(file: str) -> Pipeline:
    need_extra("spark", "pyspark", "confluent_kafka")
    from kmini.pipeline.stages.declaration import DeclarationError
    from kmini.pipeline.stages.pipeline_file import load_pipeline

    try:
        return load_pipeline(file)
    except DeclarationError as error:
        raise click.UsageError(str(error)) from error


def _run(run: Callable[..., None], *, quiet: bool) -> None:
    """Call `run` with a watcher; end the command with exit code 1 if the pipeline fails."""
    import logging

    from kmini.pipeline.stages.running_pipeline import PipelineError

    logging.getLogger("kmini.pipeline").setLevel(logging.INFO)
    with ExitStack() as stack:
        try:
            run(watcher=_quiet if quiet else _watcher(stack))
        except PipelineError as error:
            raise click.ClickException(str(error)) from error


def _quiet(progress: Progress) -> None:
    """Show nothing."""


def _watcher(stack: ExitStack) -> Watcher:
    """Draws on a terminal; elsewhere prints a line for each stage and topic now and then."""
    from kmini.pipeline.stages.pipeline_progress import now_and_then, table

    if not sys.stdout.isatty():
        return now_and_then(partial(click.echo, err=True))
    from rich.live import Live

    live = stack.enter_context(Live(auto_refresh=False))
    return lambda progress: live.update(table(progress), refresh=True)
