"""Compares what schemas say of a value's type, of listed values, of numbers and of strings.

`format` is a note here, as the specification has it for validators unless they are told otherwise: no difference of it
is named, as in Confluent's registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.registry.formats.json_schema.conjunction import Conjunction, Limit, exact, lower_limits, upper_limits
from kmini.registry.formats.json_schema.json_values import NUMBERS
from kmini.registry.formats.json_schema.nodes import Node
from kmini.registry.formats.json_schema.verdict import PROVED, Verdict, different, doubtful

if TYPE_CHECKING:
    from kmini.registry.formats.json_schema.comparison import Comparison


def judge_scalars(comparison: Comparison, reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge type, `enum`, `const`, and the keywords of numbers and strings."""
    verdict = _type(reader, writer, path)
    if not verdict.holds:
        return verdict  # what else differs is of no interest
    verdict = _values(reader, writer, path)
    if writer.types & NUMBERS:
        verdict = verdict.also(_limits(reader, writer, path)).also(_multiple(reader, writer, path))
    if "string" in writer.types:
        verdict = verdict.also(count(reader, writer, "minLength", "MIN_LENGTH", path))
        verdict = verdict.also(count(reader, writer, "maxLength", "MAX_LENGTH", path))
        verdict = verdict.also(_pattern(reader, writer, path))
    return verdict


def count(reader: Node, writer: Conjunction, keyword: str, kind: str, path: str, unit: str = "characters") -> Verdict:
    """Judge a limit of a count: `minLength`, `maxItems` and so on. `kind` begins the name of the difference."""
    if not reader.has(keyword):
        return PROVED
    limit = int(reader.get(keyword))
    is_least = keyword.startswith("min")
    known = writer.least(keyword) if is_least else writer.most(keyword)
    if (known is not None and (known >= limit if is_least else known <= limit)) or (is_least and limit == 0):
        return PROVED
    stated = [int(node.get(keyword)) for node in writer.nodes.values() if node.has(keyword)]
    change = "ADDED" if not stated else "INCREASED" if is_least else "DECREASED"
    before = f"the writer's {keyword} is {stated[0]}" if stated else f"the writer states no {keyword}"
    told = f"The reader takes {'at least' if is_least else 'at most'} {limit} {unit}, and {before}."
    return different(f"{kind}_{change}", f"{path}/{keyword}", told)


def _type(reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the types of values."""
    missing = writer.types - reader.types
    if not missing:
        return PROVED
    kind = "TYPE_NARROWED" if writer.types & reader.types else "TYPE_CHANGED"
    told = f"The reader takes {_named(reader.types)}, and the writer may write {_named(writer.types)}."
    return different(kind, f"{path}/type" if reader.has("type") else path or "/", told)


def _named(types: frozenset[str]) -> str:
    """Types for a person: "number or null"."""
    names = (types - NUMBERS) | ({"number"} if types >= NUMBERS else {"integer"} if "integer" in types else set())
    return " or ".join(sorted(names)) if names else "no value"


def _values(reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `enum` and `const`: a constant is a list of one value."""
    taken = reader.values
    if taken is None:
        return PROVED
    known = writer.values
    keyword = "enum" if reader.has("enum") else "const"
    if known is None:
        return different(
            "ENUM_ARRAY_NARROWED",
            f"{path}/{keyword}",
            f"The reader takes {len(taken)} listed values alone, and the writer's schema does not list its values.",
        )
    missing = [value for key, value in known.items() if key not in taken]
    if not missing:
        return PROVED
    kind = "ENUM_ARRAY_NARROWED" if all(key in known for key in taken) else "ENUM_ARRAY_CHANGED"
    return different(kind, f"{path}/{keyword}", f"The reader does not take {_shortened(missing[0])}.")


def _shortened(value: object) -> str:
    """A value for a person, cut where it is long."""
    text = repr(value)
    return f"the value {text if len(text) <= 60 else text[:60] + '…'}"


def _limits(reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge the range of numbers."""
    verdict = PROVED
    known = writer.lowest()
    for limit in lower_limits(reader):
        if known is None or (known.value, known.exclusive) < (limit.value, limit.exclusive):
            verdict = verdict.also(_limit(reader, writer, limit, "minimum", path))
    known = writer.highest()
    for limit in upper_limits(reader):
        if known is None or (known.value, not known.exclusive) > (limit.value, not limit.exclusive):
            verdict = verdict.also(_limit(reader, writer, limit, "maximum", path))
    return verdict


def _limit(reader: Node, writer: Conjunction, limit: Limit, end: str, path: str) -> Verdict:
    """The difference of one end of a range: `end` is "minimum" or "maximum"."""
    own = not limit.exclusive or reader.get(f"exclusive{end.capitalize()}") is True
    keyword = end if own else f"exclusive{end.capitalize()}"
    stated = any(node.has(keyword) for node in writer.nodes.values())
    change = "ADDED" if not stated else "INCREASED" if end == "minimum" else "DECREASED"
    kind = f"{'' if own else 'EXCLUSIVE_'}{end.upper()}_{change}"
    side = "above" if end == "minimum" else "below"
    reach = f"{side} {reader.get(keyword)}" if limit.exclusive else f"{side} {reader.get(keyword)} or equal to it"
    return different(kind, f"{path}/{keyword}", f"The reader takes numbers {reach}, and the writer may write others.")


def _multiple(reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `multipleOf`."""
    if not reader.has("multipleOf"):
        return PROVED
    factor = exact(reader.get("multipleOf"))
    if any((known / factor).denominator == 1 for known in writer.factors()):
        return PROVED
    stated = [exact(node.get("multipleOf")) for node in writer.nodes.values() if node.has("multipleOf")]
    larger = any((factor / known).denominator == 1 for known in stated)
    kind = "MULTIPLE_OF_EXPANDED" if larger else "MULTIPLE_OF_CHANGED" if stated else "MULTIPLE_OF_ADDED"
    told = f"The reader takes multiples of {reader.get('multipleOf')}, and the writer may write other numbers."
    return different(kind, f"{path}/multipleOf", told)


def _pattern(reader: Node, writer: Conjunction, path: str) -> Verdict:
    """Judge `pattern`: the same text is the same pattern, and two texts cannot be compared."""
    if not reader.has("pattern"):
        return PROVED
    stated = [node.get("pattern") for node in writer.nodes.values() if node.has("pattern")]
    if reader.get("pattern") in stated:
        return PROVED
    if stated:
        return doubtful("pattern", f"{path}/pattern", "The patterns of reader and writer differ.")
    told = "The reader takes strings of one pattern, and the writer's schema has no pattern."
    return different("PATTERN_ADDED", f"{path}/pattern", told)
