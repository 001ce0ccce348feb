"""JAAS configurations are read as Kafka reads them, and errors never quote them."""

from __future__ import annotations

import random

import pytest

from kmini.protocol.jaas import parse_jaas, quoted

ROUNDS = 2_000


@pytest.mark.parametrize("seed", range(2))
def test_random_configurations_are_refused_with_a_sentence(seed: int) -> None:
    draw = random.Random(seed)
    words = ["A", "required", "user_a", "=", '"x"', '"', ";", " ", "\\", "//", "/*", "*/", "\n", "é"]
    for _ in range(ROUNDS):
        text = "".join(draw.choice(words) for _ in range(draw.randrange(12)))
        said = ""
        try:
            parse_jaas(text)
        except ValueError as error:
            said = str(error)
        assert said.startswith("must ") or not said


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('A required a="1";', {"a": "1"}),
        ('A required a="1" b=2;', {"a": "1", "b": "2"}),
        ('  A\n  required\n  a="1"\n  ;', {"a": "1"}),
        ('A Required a="say \\"hi\\"; ok=1";', {"a": 'say "hi"; ok=1'}),
        ('A required /* why */ a="1" // and\n b="2";', {"a": "1", "b": "2"}),
        ("A required;", {}),
        ("A required a='say \"hi\"' b=\"it's\" c='d\\'e';", {"a": 'say "hi"', "b": "it's", "c": "d'e"}),
    ],
)
def test_configurations_are_read_as_kafka_reads_them(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert (module.name, module.options) == ("A", options)
    assert "1" not in repr(module)


@pytest.mark.parametrize("value", ["plain", 'say "hi"', "a\\b;=' c", ""])
def test_a_quoted_value_is_read_back(value: str) -> None:
    assert parse_jaas(f"A required a={quoted(value)};").options == {"a": value}
