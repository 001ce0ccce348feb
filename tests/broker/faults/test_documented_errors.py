"""The table of error codes by API: complete, of codes that there are, at levels that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from kmini.broker.faults.documented_errors import DOCUMENTED, GENERAL, documented, possible
from kmini.broker.faults.error_answers import levels
from kmini.protocol import messages
from kmini.protocol.errors import error_names
from kmini.protocol.messages import MODULES, REQUESTS, message_name
from support.for_each import for_each

SOURCES = Path(messages.__file__).parent


def test_every_api_is_in_the_table() -> None:
    assert {*DOCUMENTED} == {message_name(module) for module in MODULES.values()}


def test_the_table_has_no_error_that_kafka_does_not_have() -> None:
    assert {code for api in DOCUMENTED for code in possible(api)} <= {*error_names()}
    assert {*GENERAL} <= {*error_names()}


@for_each("api_key", MODULES, ids=MODULES.get)
def test_every_level_of_the_table_is_one_of_the_answer(api_key: int) -> None:
    request = REQUESTS[api_key]
    assert documented(request.name).keys() <= {level.name for level in levels(request.response)}
    assert documented(request.name), "an API without an error"


@for_each("api_key", MODULES, ids=MODULES.get)
def test_the_table_has_what_the_message_names_beside_its_error_code(api_key: int) -> None:
    known = documented(REQUESTS[api_key].name)
    for level, codes in _named(ast.parse((SOURCES / f"{MODULES[api_key]}.py").read_text(encoding="utf-8")), ""):
        assert codes <= known.get(level, set()), level


def _named(node: ast.AST, level: str) -> Iterator[tuple[str, set[str]]]:
    """The errors that the docstring of each error code names, by level."""
    body = getattr(node, "body", [])
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.ClassDef):
            name = "" if statement.name.endswith("Response") else statement.name
            yield from _named(statement, name)
        elif isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation) == "ErrorCode":
            if ast.unparse(statement.target) == "topic_config_error_code" or not isinstance(following, ast.Expr):
                continue
            text = ast.literal_eval(following.value)
            yield level, {word for word in re.findall(r"[A-Z][A-Z_]+[A-Z]", text) if word in error_names()}
