"""Compares what schemas say of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.registry.formats.json_schema.conjunction import Conjunction
from kmini.registry.formats.json_schema.nodes import Node
from kmini.registry.formats.json_schema.scalars import count
from kmini.registry.formats.json_schema.verdict import PROVED, Verdict, different, doubtful

if TYPE_CHECKING:
    from kmini.registry.formats.json_schema.comparison import Comparison


def judge_array(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the keywords of arrays, where the writer may write one."""
    if "array" not in writer.types:
        return PROVED
    verdict = count(reader, writer, "minItems", "MIN_ITEMS", path, "items")
    if _needs_limit(reader, writer):
        verdict = verdict.also(count(reader, writer, "maxItems", "MAX_ITEMS", path, "items"))
    if reader.get("uniqueItems") is True and not any(node.get("uniqueItems") for node in writer.nodes.values()):
        told = "The reader takes arrays without equal items, and the writer may write equal ones."
        verdict = verdict.also(different("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", told))
    verdict = verdict.also(_contains(comparison, reader, writer, path))
    verdict = verdict.also(_unevaluated(reader, path))
    return verdict.also(_first_items(comparison, reader, writer, path)).also(
        _other_items(comparison, reader, writer, path)
    )


def _needs_limit(reader: Node, writer: Conjunction) -> bool:
    """Whether the writer's closed items leave room for more of them than the reader's `maxItems`."""
    most = writer.most_items()
    return reader.has("maxItems") and (most is None or most > reader.get("maxItems"))


def _first_items(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the items that have a schema of their own on either side."""
    verdict = PROVED
    mine = reader.first_items()
    theirs = max((len(node.first_items()) for node in writer.nodes.values()), default=0)
    most = writer.most_items()
    keyword = "prefixItems" if reader.draft.number >= 2020 else "items"
    for i in range(max(len(mine), theirs) if most is None else min(max(len(mine), theirs), most)):
        schema = mine[i] if i < len(mine) else reader.other_items()
        if schema is None:
            continue
        known = writer.of_item(i)
        inner = comparison.inside(schema, known, f"{path}/{keyword}/{i}")
        if inner.differences and i >= theirs:
            inner = _item_added(i, known, inner, f"{path}/{keyword}/{i}")
        elif inner.differences and i >= len(mine):
            inner = _item_removed(i, schema, inner, f"{path}/{keyword}/{i}")
        verdict = verdict.also(inner)
    return verdict


def _item_added(position: int, known: Conjunction, inner: Verdict, path: str) -> Verdict:
    """The difference of an item that has a schema at the reader alone."""
    if not known.nodes:
        told = f"The reader has a schema for item {position}, and the writer may write any value there."
        return different("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path, told)
    told = f"The reader's schema of item {position} is new: {inner.differences[0].told}"
    return different("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, told)


def _item_removed(position: int, schema: Node, inner: Verdict, path: str) -> Verdict:
    """The difference of an item that has a schema at the writer alone."""
    if schema.contents is False:
        told = f"The reader takes no item {position}, and the writer may write one."
        return different("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, told)
    told = f"The reader has no schema of its own for item {position}: {inner.differences[0].told}"
    return different("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, told)


def _other_items(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the items behind those that have a schema of their own."""
    schema = reader.other_items()
    first = max([len(reader.first_items()), *(len(node.first_items()) for node in writer.nodes.values())])
    most = writer.most_items()
    if schema is None or (most is not None and most <= first):
        return PROVED
    known = writer.of_item(first)
    keyword = reader.other_items_keyword()
    inner = comparison.inside(schema, known, f"{path}/{keyword}")
    if not inner.differences or not reader.first_items():
        return inner
    if schema.contents is False:
        told = f"The reader takes {len(reader.first_items())} items, and the writer may write more."
        return different("ADDITIONAL_ITEMS_REMOVED", f"{path}/{keyword}", told)
    if not known.nodes:
        told = f"The reader takes items after the first {len(reader.first_items())} by a schema, and the writer any."
        return different("ADDITIONAL_ITEMS_NARROWED", f"{path}/{keyword}", told)
    return inner


def _contains(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `contains`: the same schema and counts in the writer's schema, or a doubt."""
    schema = reader.inner("contains")
    if schema is None:
        return PROVED
    for node in writer.nodes.values():
        theirs = node.inner("contains")
        counts = all(reader.get(keyword) == node.get(keyword) for keyword in ("minContains", "maxContains"))
        if theirs is not None and counts and comparison.same.of(schema, theirs):
            return PROVED
    return doubtful("contains", f"{path}/contains", "The writer's schema does not say the same.")


def _unevaluated(reader: Node, path: str) -> Verdict:
    """Doubt `unevaluatedItems` where other schemas decide what it applies to."""
    schema = reader.inner("unevaluatedItems")
    if schema is None or schema.takes_all or reader.other_items_keyword() == "unevaluatedItems":
        return PROVED
    reason = "What it applies to depends on the other schemas for the same value."
    return doubtful("unevaluatedItems", f"{path}/unevaluatedItems", reason)
