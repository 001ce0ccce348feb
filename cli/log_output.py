"""The log of a command on stderr: text lines, or one JSON object a line (`--log-format json`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LOG_FORMATS = ("text", "json")
TEXT_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"

log = logging.getLogger("kmini.serve")


def log_format_option(command: F) -> F:
    """Add `--log-format` to a command that logs."""
    return click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        envvar="KMINI_LOG_FORMAT",
        default=LOG_FORMATS[0],
        show_default=True,
        help="Format of log lines on stderr; json is one object a line.",
    )(command)


class JsonLines(logging.Formatter):
    """Makes a log record a JSON object on one line: time (ISO 8601, UTC), level, logger, message, exception."""

    def format(self, record: logging.LogRecord) -> str:
        import json
        from datetime import datetime, timezone

        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        line = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(log_format: str, level: str = "warning") -> None:
    """Log to stderr at this level and above; does nothing if the process logs already."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == "json" else logging.Formatter(TEXT_LINE))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def logs_json() -> bool:
    """Whether log lines are JSON; then stderr holds nothing else."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers)


def notice(text: str) -> None:
    """Print a line about this command on stderr; a log line if log lines are JSON."""
    if logs_json():
        log.info("%s", text)
    else:
        click.echo(f"kmini: {text}", err=True)
