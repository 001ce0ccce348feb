"""Compares what schemas say of objects, by their content models.

A schema is an open content model for a property that it does not name if the property may have any value there, a
closed one if the property may not be there, and a partially open one if a schema is there for such properties. A
property that is new in the reader's schema may have had any value in an open model, so it has to take each of them.

As in Confluent's registry, a reader may require a property that the writer leaves out if the reader's schema has a
default for it: its deserializers fill it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kmini.registry.formats.json_schema.conjunction import Conjunction
from kmini.registry.formats.json_schema.json_values import pointer
from kmini.registry.formats.json_schema.nodes import OF_TYPE, Node
from kmini.registry.formats.json_schema.other_properties import judge_other_properties
from kmini.registry.formats.json_schema.scalars import count
from kmini.registry.formats.json_schema.verdict import PROVED, Verdict, different, doubtful

if TYPE_CHECKING:
    from kmini.registry.formats.json_schema.comparison import Comparison


MATCH_STEPS: Final = 50
"""Steps that it counts to match a name with a pattern."""


def judge_object(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the keywords of objects, where the writer may write one."""
    if "object" not in writer.types:
        return PROVED
    verdict = count(reader, writer, "minProperties", "MIN_PROPERTIES", path, "properties")
    verdict = verdict.also(count(reader, writer, "maxProperties", "MAX_PROPERTIES", path, "properties"))
    for name in _names(reader, writer):
        verdict = verdict.also(_property(comparison, reader, writer, name, path))
    verdict = verdict.also(_required(comparison, reader, writer, path))
    verdict = verdict.also(_required_beside(reader, writer, path))
    verdict = verdict.also(_schemas_beside(comparison, reader, writer, path))
    verdict = verdict.also(judge_other_properties(comparison, reader, writer, path))
    verdict = verdict.also(_property_names(comparison, reader, writer, path))
    return _unevaluated(reader, writer, path, verdict)


def _names(reader: Node, writer: Conjunction) -> list[str]:
    """The names that have a schema on either side, the reader's first."""
    names = dict.fromkeys(reader.properties)
    for node in writer.nodes.values():
        names |= dict.fromkeys(node.properties)
    return list(names)


def _is_named(writer: Conjunction, name: str) -> bool:
    """Whether the writer's schema names the property."""
    return any(name in node.properties for node in writer.nodes.values())


def _property(comparison: Comparison, reader: Node, writer: Conjunction, name: str, path: str) -> Verdict:
    """Judge the property of one name."""
    comparison.spend(1 + MATCH_STEPS * sum(len(node.patterns) for node in (reader, *writer.nodes.values())))
    schemas, untold = reader.sure_schemas_of(name)
    known = writer.of_property(name)
    verdict = PROVED
    way = path + pointer("properties", name)
    for schema in schemas:
        verdict = verdict.also(comparison.inside(schema, known, way))
    if verdict.differences and any(node.sure_schemas_of(name)[1] for node in writer.nodes.values()):
        verdict = doubtful(
            "patternProperties", way, "It is not plain whether a pattern of the writer matches the name."
        )
    elif verdict.differences and name not in reader.properties:
        verdict = _removed(reader, name, verdict, way)
    elif verdict.differences and not _is_named(writer, name):
        verdict = _added(name, known, verdict, way)
    for pattern in untold:
        verdict = verdict.also(_under_untold_pattern(comparison, reader, writer, name, pattern, path))
    others = reader.other_properties()
    if untold and not schemas and others is not None and not comparison.inside(others, known, path).holds:
        reason = f"It is not plain whether a pattern matches the name {name[:100]!r}."
        verdict = verdict.also(doubtful("additionalProperties", f"{path}/additionalProperties", reason))
    return verdict


def _added(name: str, known: Conjunction, verdict: Verdict, path: str) -> Verdict:
    """The difference of a property that the reader alone names."""
    if not known.nodes:
        told = f"The reader's property {name!r} is new, and the writer's open content model allows any value there."
        return different("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, told)
    told = f"The reader's property {name!r} is new, and does not take what the writer's schema of other properties "
    told += f"takes: {verdict.differences[0].told}"
    return different("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, told)


def _removed(reader: Node, name: str, verdict: Verdict, path: str) -> Verdict:
    """The difference of a property that the writer alone names."""
    others = reader.other_properties()
    if others is not None and others.contents is False:
        told = f"The reader has no property {name!r}, and its closed content model refuses it."
        return different("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, told)
    told = f"The reader has no property {name!r}, and its schema of other properties does not take what the writer's "
    told += f"takes: {verdict.differences[0].told}"
    return different("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, told)


def _under_untold_pattern(
    comparison: Comparison, reader: Node, writer: Conjunction, name: str, pattern: str, path: str
) -> Verdict:
    """Judge a property as if a pattern matched its name, which is too hard to tell."""
    schema = reader.at("patternProperties", pattern)
    way = path + pointer("patternProperties", pattern)
    if comparison.inside(schema, writer.of_property(name), way).holds:
        return PROVED
    theirs = Conjunction(
        node.at("patternProperties", pattern) for node in writer.nodes.values() if pattern in node.patterns
    )
    if theirs.nodes and comparison.inside(schema, theirs, way).holds:
        return PROVED
    reason = f"It is not plain whether the pattern matches the name {name[:100]!r}."
    return doubtful("patternProperties", way, reason)


def _required(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the properties that have to be there."""
    verdict = PROVED
    for name in sorted(reader.required - writer.required):
        schema = reader.properties.get(name)
        if comparison.lenient and isinstance(schema, dict) and "default" in schema:
            continue
        is_new = name in reader.properties and not _is_named(writer, name)
        if is_new and writer.of_property(name).nodes:
            told = f"The reader requires the property {name!r}, which the writer's schema does not have."
            way = path + pointer("properties", name)
            found = different("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", way, told)
        else:
            told = f"The reader requires the property {name!r}, and the writer does not."
            found = different("REQUIRED_ATTRIBUTE_ADDED", path + pointer("required", name), told)
        verdict = verdict.also(found)
    return verdict


def _required_beside(reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the properties that have to be there where another one is."""
    verdict = PROVED
    keyword = "dependencies" if reader.draft.number <= 7 else "dependentRequired"
    for name, names in sorted(reader.required_beside().items()):
        stated = [node.required_beside()[name] for node in writer.nodes.values() if name in node.required_beside()]
        known = writer.required.union({name}, *stated)
        if names <= known or writer.of_property(name).types == frozenset():
            continue
        change = "ADDED" if not stated else "EXTENDED" if names > frozenset().union(*stated) else "CHANGED"
        missing = min(names - known)
        told = f"Where {name!r} is, the reader requires the property {missing!r}, and the writer does not."
        verdict = verdict.also(different(f"DEPENDENCY_ARRAY_{change}", path + pointer(keyword, name), told))
    return verdict


def _schemas_beside(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the schemas for objects that have a property."""
    verdict = PROVED
    keyword = "dependencies" if reader.draft.number <= 7 else "dependentSchemas"
    for name, schema in sorted(reader.schemas_beside().items()):
        known = writer
        stated = False
        for node in writer.nodes.values():
            theirs = node.schemas_beside().get(name)
            known = known if theirs is None else known.with_schema(theirs)
            stated = stated or theirs is not None
        way = path + pointer(keyword, name)
        inner = comparison.judge(schema, known, way)
        if inner.differences and not stated:
            told = f"Where {name!r} is, the reader applies one more schema: {inner.differences[0].told}"
            inner = different("DEPENDENCY_SCHEMA_ADDED", way, told)
        verdict = verdict.also(inner)
    return verdict


def _property_names(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `propertyNames`: each name is a string."""
    schema = reader.inner("propertyNames")
    if schema is None:
        return PROVED
    theirs = [node.inner("propertyNames") for node in writer.nodes.values()]
    known = Conjunction([OF_TYPE["string"], *(node for node in theirs if node is not None)])
    return comparison.inside(schema, known, f"{path}/propertyNames")


def _unevaluated(reader: Node, writer: Conjunction, path: str, verdict: Verdict) -> Verdict:
    """Doubt `unevaluatedProperties` where other schemas decide what it applies to."""
    schema = reader.inner("unevaluatedProperties")
    reason = "What it applies to depends on the other schemas for the same value."
    way = f"{path}/unevaluatedProperties"
    if schema is not None and not schema.takes_all and reader.judges_in_place:
        verdict = verdict.also(doubtful("unevaluatedProperties", way, reason))
    closes = any(node.has("unevaluatedProperties") and node.judges_in_place for node in writer.nodes.values())
    added = [found for found in verdict.differences if found.kind == "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]
    if closes and added and len(added) == len(verdict.differences):
        # The writer's model may be closed, after all.
        return Verdict(doubts=verdict.doubts).also(doubtful("unevaluatedProperties", way, reason))
    return verdict
