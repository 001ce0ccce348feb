"""Log lines as JSON."""

from __future__ import annotations

import json
import logging

from kmini.cli.log_output import JsonLines


def test_a_log_line_with_an_exception_and_line_ends_is_one_object_on_one_line() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        record = logging.LogRecord(
            "kmini.x", logging.ERROR, __file__, 1, "failed: %s\n", ("é",), (type(error), error, error.__traceback__)
        )
    record.created = 1_700_000_000.25
    text = JsonLines().format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert line.pop("exception").endswith("ValueError: a\nb")
    assert line == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "ERROR",
        "logger": "kmini.x",
        "message": "failed: é\n",
    }
