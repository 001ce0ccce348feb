"""The pages of docs/ that are read off the program's own tables: `make docs` writes them.

A test compares what is committed with what this would write, so that the pages agree with the program.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from types import ModuleType

import click

from kmini.broker.api.registry import Handler, loaded
from kmini.broker.api.releases import NEWEST
from kmini.broker.broker import BrokerServer
from kmini.broker.controller.topics import create
from kmini.broker.handlers import HANDLERS
from kmini.broker.metrics_text import metrics_text
from kmini.broker.security.permission_kinds import Scope
from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig, TopicDefault
from kmini.broker.settings.config_reference import server_properties
from kmini.broker.settings.group_config import GroupConfig
from kmini.broker.settings.ignored_keys import FAMILIES, Family
from kmini.cli import kmini
from kmini.protocol import errors
from kmini.protocol.api_keys import API_KEYS, API_NAMES
from kmini.storage.config_key import READ_ONLY, ConfigKey
from kmini.storage.log_config import LogConfig

sys.path.append(str(Path(__file__).resolve().parent))

from api_page import api
from control_page import control_api
from findings_page import findings_page
from markdown_page import NOTE, one_line, table

ROOT = Path(__file__).resolve().parent.parent


def pages() -> dict[str, str]:
    """Every generated page, by its path in the repository."""
    return {
        "config/server.properties": server_properties(),
        "docs/api.md": api(),
        "docs/reference/apis.md": apis(),
        "docs/reference/command-line.md": command_line(),
        "docs/reference/configs.md": configs(),
        "docs/reference/control-api.md": control_api(),
        "docs/reference/errors.md": error_codes(),
        "docs/reference/findings.md": findings_page(),
        "docs/reference/metrics.md": metrics(),
        "docs/differences.md": differences(),
    }


# --- requests


def apis() -> str:
    """The requests served: versions, the first sentence of each handler's data sheet, and the permissions needed."""
    rows = [
        (
            str(key),
            f"`{handler.request.name}`",
            _versions(handler),
            _first_sentence(sys.modules[handler.function.__module__]),
            _needs(handler),
        )
        for key, handler in sorted(loaded(HANDLERS).items())
    ]
    others = ", ".join(name for key, name in sorted(API_NAMES.items()) if key not in HANDLERS)
    return (
        f"{NOTE}# Requests\n\n"
        f"{len(rows)} requests of Apache Kafka's protocol are served, in the versions that `ApiVersions` tells. Where "
        "an authorizer is configured ([security](../security.md)), a client needs the permissions in the last "
        "column.\n\n"
        f"{table(('key', 'request', 'versions', '', 'needs'), rows)}\n"
        f"Not served: {others}.\n"
    )


def _versions(handler: Handler) -> str:
    text = f"{handler.min_version}–{handler.max_version}"
    if handler.advertised_min < handler.min_version:
        text += f" (told: from {handler.advertised_min})"
    return text


def _needs(handler: Handler) -> str:
    """The permissions in the order in which they are asked; `or` behind one that makes the next one unnecessary."""
    text = ""
    for permission in handler.needs:
        text += f"{permission}{' or ' if permission.scope is Scope.SUFFICES else ', '}"
    return text.removesuffix(", ")


def _first_sentence(module: ModuleType) -> str:
    """`Name, versions 0 to 2: what it does.` without the columns of the table."""
    paragraph = " ".join((module.__doc__ or "").split("\n\n")[0].split())
    _, _, about = paragraph.partition(": ")
    about = about or paragraph
    return about[:1].upper() + about[1:]


# --- settings


def configs() -> str:
    """The three tables of settings."""
    sections: list[str] = []
    rows: list[tuple[str, ...]] = []
    for line in BROKER_KEYS.values():
        if isinstance(line, TopicDefault):
            continue
        if line.section:
            _end_section(sections, rows)
            sections.append(f"### {line.section}\n")
        rows.append(_setting(line))
    _end_section(sections, rows)
    headings = ("setting", "type", "default", "meaning", "default from")
    topic_rows, group_rows = (
        [(*_setting(line), ", ".join(f"`{name}`" for name in line.broker_keys)) for line in settings.KEYS.values()]
        for settings in (LogConfig, GroupConfig)
    )
    return (
        f"{NOTE}# Settings\n\n"
        "Names, meanings and defaults are Apache Kafka's; **differs** says where and why one is not. They are given in "
        "a `server.properties`, with `-c`, as `Broker(config=...)` or, in a container, by `KAFKA_*` variables. "
        "Settings of Kafka's that are not listed are accepted, named once in the log, and change nothing; a name that "
        "Kafka does not have is an error. What can change while the broker runs is marked *dynamic*.\n\n"
        "## Broker\n\n" + "\n".join(sections) + "\n## Topics\n\n"
        "A topic's own value wins; the broker settings beside it are the default for all topics, the first that is set "
        "before the others.\n\n"
        f"{table(headings, topic_rows)}\n"
        "## Groups\n\n"
        "A group's own value wins over the broker setting beside it; the `min` and `max` settings of the broker bound "
        "it. The group need not exist yet.\n\n"
        f"{table(headings, group_rows)}"
    )


def _end_section(sections: list[str], rows: list[tuple[str, ...]]) -> None:
    if rows:
        sections.append(table(("setting", "type", "default", "meaning"), rows))
        rows.clear()


def _setting(line: ConfigKey) -> tuple[str, ...]:
    text = line.text(line.default)
    meaning = line.doc
    if line.rule.text:
        meaning += f" It {line.rule.text}."
    if not line.broker_keys and line.dynamic != READ_ONLY:
        meaning += " *Dynamic*."
    if line.differs:
        meaning += f" **Differs**: {line.differs}."
    if line.no_effect:
        meaning += f" **No effect**: {line.no_effect}."
    return f"`{line.name}`", line.type.name, f"`{text}`" if text else "", meaning


# --- errors


def error_codes() -> str:
    """Every error of the protocol."""
    known = [error for code in range(-1, 512) if code and (error := _error(code)) is not None]
    rows = [
        (str(error.code), f"`{error.kafka_name}`", "yes" if error.retriable else "", one_line(error.__doc__ or ""))
        for error in known
    ]
    return (
        f"{NOTE}# Errors\n\n"
        "What a response's error code means. *Retriable* is what Kafka's own clients take it for: the same request may "
        "succeed later. In Python each is an exception of `kmini.protocol.errors`, named in CamelCase.\n\n"
        f"{table(('code', 'error', 'retriable', 'meaning'), rows)}"
    )


def _error(code: int) -> type[errors.KafkaError] | None:
    error = errors.error_for(code)
    return error if error.code == code else None


# --- metrics


def metrics() -> str:
    """Every family of metrics, with its labels, as a broker reports them once they have samples."""
    from prometheus_client.parser import text_string_to_metric_families

    rows = []
    for family in text_string_to_metric_families(asyncio.run(_busy_metrics())):
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append((f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels), family.documentation))
    return (
        f"{NOTE}# Metrics\n\n"
        "`Broker.metrics_text()` gives them in Prometheus' text format. Names are Apache Kafka's, by rule: the MBean "
        "`kafka.log:type=Log,name=LogEndOffset` is `kafka_log_log_logendoffset`: domain, type and name in lower case, "
        "what is no letter or digit an underscore, further properties as labels, and `…PerSec` the counter `…_total` "
        "behind it. What is counted per topic is also told without a topic, for the broker.\n\n"
        f"{table(('metric', 'kind', 'labels', 'meaning'), rows)}"
    )


async def _busy_metrics() -> str:
    with tempfile.TemporaryDirectory() as directory:
        broker = await BrokerServer.start(
            BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"}), directory, is_temporary=True
        )
        try:
            create(broker, "orders", partitions=1)
            broker.metrics.produced("orders", 1, 100)
            broker.metrics.of_api(0).seconds_taken.append(0.001)
            broker.metrics.failed(0, "UNKNOWN_SERVER_ERROR")
            return metrics_text(broker)
        finally:
            await broker.stop()


# --- the command line


def command_line() -> str:
    """Every command with its help, laid out here: click's own layout is its release's."""
    context = click.Context(kmini, info_name="kmini", **kmini.context_settings)
    parts = [
        f"{NOTE}# Command line\n\nEvery command explains itself with `--help`; this is the same text. A command that "
        "fails says why in one sentence, with exit code 2 for wrong usage and 1 for what did not work.\n"
    ]
    parts += _commands(kmini, context)
    return "\n".join(parts)


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield _command(command, inner)


def _command(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = f"## {context.command_path}\n\n```\n{usage}\n```\n\n{_help(command.help or '')}\n"
    rows = [_option(option) for option in command.params if isinstance(option, click.Option) and not option.hidden]
    return f"{text}\n{table(('option', ''), rows)}" if rows else text


def _help(text: str) -> str:
    """Paragraphs, in which `\\b` begins one to be left as it is: those are examples."""
    paragraphs = cleandoc(text.partition("\f")[0]).split("\n\n")
    return "\n\n".join(
        "```sh\n" + paragraph.partition("\n")[2] + "\n```"
        if paragraph.startswith("\b")
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def _option(option: click.Option) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if not option.is_flag:
        names += f" {option.metavar or _value(option.type)}"
    about = option.help or ""
    if option.show_default and option.default is not None and not option.is_flag:
        about += f" [default: {option.default}]"
    if option.envvar:
        about += f" [environment: {option.envvar}]"
    return names, about


def _value(kind: click.ParamType) -> str:
    """The placeholder of an option's value."""
    if isinstance(kind, click.Choice):
        return "|".join(map(str, kind.choices))
    return "N" if kind.name.startswith("integer") else kind.name.upper()


# --- differences


def differences() -> str:
    """The intended differences from Apache Kafka, from the oracle's list and the tables of settings."""
    keys = [*BROKER_KEYS.values(), *LogConfig.KEYS.values(), *GroupConfig.KEYS.values()]
    named = {line.name: line for line in keys if not isinstance(line, TopicDefault)}
    differing = [(f"`{line.name}`", f"{line.differs}.") for line in named.values() if line.differs]
    idle = [(f"`{line.name}`", f"{line.no_effect}.") for line in named.values() if line.no_effect]
    return (
        f"{NOTE}# Where kmini is not Apache Kafka\n\n"
        "All differences on this page are intended. `tests/oracle/` sends the same requests to kmini and to Apache "
        "Kafka and compares the answers. The first table lists the differences that it accepts: any other one is a "
        "bug.\n\n"
        "## Answers\n\n"
        f"{_answers()}\n"
        "## Requests that are left out\n\n"
        "Apache Kafka 4.3 lists them in ApiVersions, and kmini does not.\n\n"
        f"{table(('requests', 'what for', 'what a client does here'), _left_out())}\n"
        "`GetTelemetrySubscriptions` and `PushTelemetry` (KIP-714) are listed by neither: Apache Kafka does where a "
        "metrics reporter of its own takes what clients push.\n\n"
        "## The log cleaner\n\n"
        "The cleaner chooses logs at other times than Apache Kafka's, and differs in these cases; each has a test. In "
        "all others a pass over the same log leaves the same records: tests compare both cleaners.\n\n"
        f"{table(('what', 'here', 'in Apache Kafka', 'why'), _cleaner())}\n"
        "## A coordinator after a failover\n\n"
        "A new coordinator answers COORDINATOR_LOAD_IN_PROGRESS until every in-sync replica has the records that it "
        "loaded. Apache Kafka answers from its high watermark, which may be behind the answers of the previous "
        "coordinator: a committed offset may seem to go back for a moment. kmini also announces the first generation "
        "of a new group only once the group's record is replicated; Apache Kafka does not wait for that.\n\n"
        "## Delegation tokens\n\n"
        "A token that has expired does not log in. In Apache Kafka it does until "
        "`delegation.token.expiry.check.interval.ms` removes it, and the connection ends at its next request. A token "
        "that was made, renewed or removed is known to every broker at once; a broker of Apache Kafka sees it a "
        "moment later. A login with an extension of SCRAM other than `tokenauth` is refused. Apache Kafka ignores such "
        "extensions, but with two of them a login succeeds there by chance only.\n\n"
        "## Quotas\n\n"
        "Rates, windows, precedence and throttle times are Apache Kafka's. These differ:\n\n"
        f"{table(('what', 'here', 'in Apache Kafka', 'why'), _quotas())}\n"
        "## Requests that are refused\n\n"
        "`UnregisterBroker` is refused for a running broker. Apache Kafka unregisters it, and its partitions have no "
        "leader until the broker is restarted.\n\n"
        "## Settings with another default or rule\n\n"
        f"{table(('setting', 'why'), differing)}\n"
        "## Settings that are accepted and change nothing\n\n"
        f"{table(('setting', 'why'), idle)}\n"
        "Of these only the name is known:\n\n"
        f"{table(('settings', 'why'), map(_family, FAMILIES))}"
    )


def _family(family: Family) -> tuple[str, str]:
    names = [*(f"`{prefix}*`" for prefix in family.prefixes), *(f"`{name}`" for name in sorted(family.names))]
    return ", ".join(names), f"{family.reason}."


def _answers() -> str:
    """The table of the oracle; patterns and values that may be any are shown as …."""
    rows = [
        (
            f"`{one.api}`",
            one.what.replace("*", "…"),
            f"`{one.field}`" if one.field else "",
            one.ours.replace("...", "…"),
            one.theirs.replace("...", "…"),
            f"{one.reason}.",
        )
        for one in _oracle().DIFFERENCES
    ]
    return table(("request", "asked", "field", "here", "in Apache Kafka", "why"), rows)


LEFT_OUT = (
    (
        ("AddRaftVoter", "RemoveRaftVoter"),
        "a quorum of controllers that changes (KIP-853)",
        "`kafka-metadata-quorum add-controller` and `remove-controller` end with UnsupportedVersionException: there is "
        "no quorum.",
    ),
)
"""Requests that the newest release lists and that are not served, what they are for, and what a client does."""


def _left_out() -> Iterator[tuple[str, ...]]:
    """Raises AssertionError where the table and what is served part."""
    missing = {name for name, key in API_KEYS.items() if key in NEWEST.versions and key not in HANDLERS}
    assert missing == {name for names, _, _ in LEFT_OUT for name in names}
    for names, about, then in LEFT_OUT:
        yield ", ".join(f"`{name}`" for name in names), about, then


def _quotas() -> list[tuple[str, str, str, str]]:
    return [
        (
            "`request_percentage`",
            "the time that a handler runs on the event loop, without its waits",
            "the time of I/O and network threads, with decoding and encoding",
            "one event loop does the work of these threads",
        ),
        (
            "`controller_mutation_rate`",
            "each broker counts what it is asked for",
            "the active controller counts everything",
            "there is no controller beside the brokers",
        ),
        (
            "ShareFetch above `consumer_byte_rate`",
            "the answer has its records, and the client is throttled",
            "the answer is empty, and its records stay acquired until their lock is over",
            "records that were not sent need not wait for a lock",
        ),
        (
            "brokers",
            "other brokers of the process are never held to a quota",
            "followers' fetches and requests among brokers are exempt, other requests of a broker's user are not",
            "they are no clients",
        ),
        (
            "what is kept of clients",
            "rates of 10,000 clients of each kind, and none of clients without a quota",
            "any number",
            "memory is bounded",
        ),
        (
            "quotas of replication, `client.quota.callback.class`",
            "not offered",
            "offered",
            "nothing in tests has asked for them",
        ),
    ]


def _cleaner() -> Iterator[tuple[str, ...]]:
    for one in _oracle().CLEANER:
        yield one.what, one.ours, one.theirs, f"{one.reason}."


def _oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "oracle_differences", ROOT / "tests" / "support" / "oracle" / "differences.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stale() -> dict[Path, str]:
    """The pages that are not as they should be, with what they should be."""
    return {
        ROOT / path: text
        for path, text in pages().items()
        if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text
    }


def write() -> None:
    """Write the pages that are not as they should be, and name them."""
    for file, text in stale().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        write()
    elif found := stale():
        sys.exit(f"`make docs` writes these anew: {', '.join(str(file.relative_to(ROOT)) for file in found)}")
