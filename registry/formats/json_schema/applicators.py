"""Compares the keywords that apply other schemas to the same value: `$ref`, `allOf`, sums, `not` and conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.registry.formats.json_schema.conjunction import Conjunction
from kmini.registry.formats.json_schema.nodes import Node
from kmini.registry.formats.json_schema.sameness import DEPENDS_ON_THE_WAY
from kmini.registry.formats.json_schema.sums import judge_sum
from kmini.registry.formats.json_schema.verdict import PROVED, Verdict, different, doubtful

if TYPE_CHECKING:
    from kmini.registry.formats.json_schema.comparison import Comparison


def judge_applicators(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the schemas that the reader applies to the same value."""
    verdict = _reference(comparison, reader, writer, path).also(_product(comparison, reader, writer, path))
    for keyword in ("anyOf", "oneOf"):
        verdict = verdict.also(judge_sum(comparison, reader, keyword, writer, path))
    return verdict.also(_not(comparison, reader, writer, path)).also(_condition(comparison, reader, writer, path))


def _reference(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge what the reader refers to."""
    for keyword in DEPENDS_ON_THE_WAY:
        if reader.has(keyword):
            return doubtful(keyword, f"{path}/{keyword}", "What it refers to depends on the schemas around it.")
    if not reader.has("$ref"):
        return PROVED
    target = reader.refers_to()
    if target is None:
        return doubtful("$ref", f"{path}/$ref", f"Nothing is called {str(reader.get('$ref'))[:100]}.")
    return comparison.judge(target, writer, path)


def _product(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge each schema of `allOf`."""
    verdict = PROVED
    stated = max((len(node.row("allOf")) for node in writer.nodes.values()), default=0)
    for i, node in enumerate(reader.row("allOf")):
        inner = comparison.judge(node, writer, f"{path}/allOf/{i}")
        if inner.differences and 0 < stated <= i:
            told = f"The reader has more schemas under allOf than the writer: {inner.differences[0].told}"
            inner = different("PRODUCT_TYPE_EXTENDED", f"{path}/allOf/{i}", told)
        verdict = verdict.also(inner)
    return verdict


def _not(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `not`: it holds if none of the writer's values is valid under the schema that is refused."""
    refused = reader.inner("not")
    if refused is None or comparison.excludes_all(writer.with_schema(refused)):
        return PROVED
    return doubtful("not", f"{path}/not", "It is not plain that the writer's schema refuses the same values.")


def _condition(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `if`, `then` and `else`: the same in the writer's schema, or implied by it."""
    condition = reader.inner("if")
    if condition is None or _same_condition(comparison, reader, writer):
        return PROVED
    then, otherwise = reader.inner("then"), reader.inner("else")
    implied = then is None or comparison.judge(then, writer.with_schema(condition), f"{path}/then").holds
    if implied and (otherwise is None or comparison.judge(otherwise, writer, f"{path}/else").holds):
        return PROVED
    return doubtful("if", f"{path}/if", "It is not plain that the writer's values meet the condition.")


def _same_condition(comparison: Comparison, reader: Node, writer: Conjunction) -> bool:
    """Whether a schema of the writer has the same condition."""
    for node in writer.nodes.values():
        pairs = [(reader.inner(keyword), node.inner(keyword)) for keyword in ("if", "then", "else")]
        if all((mine is None) == (theirs is None) for mine, theirs in pairs) and all(
            mine is None or theirs is None or comparison.same.of(mine, theirs) for mine, theirs in pairs
        ):
            return True
    return False
