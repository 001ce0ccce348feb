"""Compares the schemas of properties that neither side names: by pattern, and all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.registry.formats.json_schema.conjunction import Conjunction
from kmini.registry.formats.json_schema.json_values import pointer
from kmini.registry.formats.json_schema.nodes import Node
from kmini.registry.formats.json_schema.verdict import PROVED, Verdict, different, doubtful

if TYPE_CHECKING:
    from kmini.registry.formats.json_schema.comparison import Comparison


def judge_other_properties(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `patternProperties` and `additionalProperties` for properties without a schema of their own."""
    verdict = PROVED
    for pattern in reader.patterns:
        verdict = verdict.also(_pattern(comparison, reader, writer, pattern, path))
    others = reader.other_properties()
    if others is None:
        return verdict
    keyword = "additionalProperties" if reader.has("additionalProperties") else "unevaluatedProperties"
    return verdict.also(_others(comparison, others, reader, writer, f"{path}/{keyword}"))


def _pattern(comparison: Comparison, reader: Node, writer: Conjunction, pattern: str, path: str) -> Verdict:
    """Judge the schema of properties whose names match one pattern."""
    schema = reader.at("patternProperties", pattern)
    way = path + pointer("patternProperties", pattern)
    theirs = Conjunction(
        node.at("patternProperties", pattern) for node in writer.nodes.values() if pattern in node.patterns
    )
    if any(pattern in node.patterns for node in writer.nodes.values()):
        verdict = comparison.inside(schema, theirs, way)
        if verdict.holds:
            return PROVED
        # Other schemas may judge the same names at the writer, but the pattern alone is what the two have in common.
        return verdict
    if all(comparison.inside(schema, case, way).holds for case in _possible(writer, without=frozenset())):
        return PROVED
    if any(node.patterns for node in writer.nodes.values()):
        return doubtful("patternProperties", way, "The patterns of reader and writer differ.")
    told = "The reader has a schema for the properties of one more pattern, and the writer may write others there."
    return different("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", way, told)


def _others(comparison: Comparison, schema: Node, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the schema of properties without a name or a pattern at the reader."""
    verdicts = [comparison.inside(schema, case, path) for case in _possible(writer, frozenset(reader.patterns))]
    failed = [verdict for verdict in verdicts if not verdict.holds]
    if not failed:
        return PROVED
    if any(set(node.patterns) - set(reader.patterns) for node in writer.nodes.values()):
        return doubtful("patternProperties", path, "The patterns of reader and writer differ.")
    if not failed[0].differences:
        return failed[0]
    if schema.contents is False:
        told = "The reader's content model is closed, and the writer may write other properties."
        return different("ADDITIONAL_PROPERTIES_REMOVED", path, told)
    if not any(node.other_properties() for node in writer.nodes.values()):
        told = "The reader has a schema for other properties, and the writer may write any there."
        return different("ADDITIONAL_PROPERTIES_NARROWED", path, told)
    return failed[0]


def _possible(writer: Conjunction, without: frozenset[str]) -> list[Conjunction]:
    """What may hold for a property that the writer does not name, whose name matches none of some patterns.

    It is under one of the other patterns of the writer, or under the schemas for all others.
    """
    plain = [node.other_properties() for node in writer.nodes.values() if not set(node.patterns) - without]
    surely = [schema for schema in plain if schema is not None]
    cases = [Conjunction(surely)]
    for node in writer.nodes.values():
        patterns = [pattern for pattern in node.patterns if pattern not in without]
        if patterns:
            others = node.other_properties()
            cases = [Conjunction([*surely, *([] if others is None else [others])])] if len(cases) == 1 else cases
            cases += [Conjunction([*surely, node.at("patternProperties", pattern)]) for pattern in patterns]
    return cases
