"""Regular expressions read and matched by kmini and by RE2/J, which Apache Kafka uses."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kmini.broker.regular_expressions import Pattern
from kmini.broker.scheduler import Turn
from kmini.protocol.errors import InvalidRegularExpression
from support import apache_kafka

EXPRESSIONS = 6_000
ATOMS = [
    *(
        "a",
        "b",
        "B",
        "k",
        "-",
        "1",
        "_",
        ".",
        "^",
        "$",
        "é",
        "é",
        "\\.",
        "\\-",
        "\\_",
        "\\d",
        "\\D",
        "\\w",
        "\\W",
        "\\s",
    ),
    *("\\b", "\\B", "\\A", "\\z", "\\Z", "\\n", "\\t", "\\x61", "\\x{62}", "\\x{}", "\\x6", "\\101", "\\1", "\\07"),
    *("\\pL", "\\pN", "\\p{Lu}", "\\P{Ll}", "\\p{^Lu}", "\\p{Any}", "\\pX", "\\Qa.b\\E", "\\Q*", "\\q", "\\C", "\\"),
    *("[ab]", "[^a]", "[a-c]", "[c-a]", "[]a]", "[^]a]", "[a-]", "[-a]", "[\\d-]", "[\\w.]", "[[:alpha:]]", "[a"),
    *("[[:^digit:]_]", "[[:nope:]]", "[\\pL]", "[\\x61-\\x63]", "[a-\\d]", "[.-]", "[a-c-e]", "[[a]", "[\\b]"),
    *("(?i)", "(?s)", "(?m)", "(?U)", "(?-i)", "(?i-s)", "(?is)", "(?-)", "(?)", "(?x)", "(?i:", "(?:", "(?P<n>"),
    *("(?<m>", "(?P<1a>", "(?P<>", "(?=", "(?!", "(?<=", "(?>", "(", "(", ")", ")", ")", "|", "|"),
]
REPETITIONS = [
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,2}",
    "{0,}",
    "{,2}",
    "{2",
    "{a}",
    "{2,1}",
    "{1001}",
    "{01}",
    "{0}",
]
TEXTS = [
    "",
    "a",
    "b",
    "A",
    "ab",
    "aB",
    "abc",
    "a.b",
    "a-b",
    "1",
    "_",
    ".",
    "é",
    "É",
    "k",
    "\u212a",
    "K",
    "\n",
    "a\n",
    "a\nb",
]


def any_expression(rng: random.Random) -> str:
    parts = []
    for _ in range(rng.randint(1, 6)):
        parts.append(rng.choice(ATOMS if rng.random() < 0.7 else ATOMS[:20]))
        if rng.random() < 0.3:
            parts.append(rng.choice(REPETITIONS))
    return "".join(parts) + ")" * (rng.random() < 0.3)


async def matched_by_kmini(expression: str) -> str:
    try:
        pattern = Pattern(expression)
    except InvalidRegularExpression:
        return "none"
    found = [await pattern.matches(text, Turn()) for text in TEXTS]
    return "".join(str(int(each)) for each in found)


def matched_by_java(expressions: list[str]) -> list[str]:
    given = "".join(json.dumps([expression, TEXTS]) + "\n" for expression in expressions)
    command = [
        *apache_kafka.java_command("-XX:TieredStopAtLevel=1"),
        str(Path(__file__).with_name("RegularExpressions.java")),
    ]
    finished = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.oracle
@pytest.mark.usefixtures("need_kafka")
async def test_expressions_mean_what_they_mean_to_kafka() -> None:
    rng = random.Random(2)
    expressions = [any_expression(rng) for _ in range(EXPRESSIONS)]
    kinds: Counter[str] = Counter()
    wrong = []
    for expression, theirs in zip(expressions, matched_by_java(expressions), strict=True):
        ours = await matched_by_kmini(expression)
        kinds["none" if theirs == "none" else "1" if "1" in theirs else "0"] += 1
        if ours != theirs:
            wrong.append((expression, ours, theirs))
    assert wrong == []
    assert min(kinds.values()) > EXPRESSIONS // 20, kinds
