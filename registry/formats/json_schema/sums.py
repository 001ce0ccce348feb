"""Compares `anyOf` and `oneOf`: schemas of which a value is valid under one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.registry.formats.json_schema.conjunction import Conjunction, Sum
from kmini.registry.formats.json_schema.nodes import OF_TYPE, Node
from kmini.registry.formats.json_schema.verdict import PROVED, Verdict, different, doubtful

if TYPE_CHECKING:
    from kmini.registry.formats.json_schema.comparison import Comparison


def judge_sum(comparison: Comparison, reader: Node, keyword: str, writer: Conjunction, path: str) -> Verdict:
    """Judge an `anyOf` or a `oneOf` of the reader."""
    if not reader.has(keyword):
        return PROVED
    if len(writer.sums) == 1:  # the comparison tells the writer's alternatives apart, which costs less than to try all
        told = f"The writer's alternatives are looked at one by one for {keyword}."
        return different("COMBINED_TYPE_SUBSCHEMAS_CHANGED", f"{path}/{keyword}", told)
    verdict = _under_one(comparison, reader, keyword, writer, path)
    if verdict.holds or writer.sums:
        return verdict  # the comparison tells the writer's alternatives apart
    cases = [writer.with_schema(node) for node in OF_TYPE.values() if node.types <= writer.types]
    if len(cases) < 2 or not writer.types <= frozenset().union(*(case.types for case in cases)):
        return verdict
    verdicts = [_under_one(comparison, reader, keyword, case, path) for case in cases]
    return next((found for found in verdicts if not found.holds), PROVED)


def _under_one(comparison: Comparison, reader: Node, keyword: str, writer: Conjunction, path: str) -> Verdict:
    """Whether one schema of the reader takes all of the writer's values, and the others of a `oneOf` none of them."""
    alternatives = reader.row(keyword)
    failures = []
    for i in sorted(range(len(alternatives)), key=lambda i: i != writer.chosen):
        node = alternatives[i]
        verdict = comparison.judge(node, writer, f"{path}/{keyword}/{i}")
        if not verdict.holds:
            failures.append(verdict)
            continue
        return _alone(comparison, alternatives, i, writer, f"{path}/oneOf") if keyword == "oneOf" else PROVED
    doubts = [doubt for verdict in failures if not verdict.differences for doubt in verdict.doubts]
    if doubts:
        return Verdict(doubts=tuple(doubts[:1]))
    told = f"The reader has {len(alternatives)} alternatives under {keyword}, and none of them takes each value."
    return different("COMBINED_TYPE_SUBSCHEMAS_CHANGED", f"{path}/{keyword}", told)


def _alone(comparison: Comparison, alternatives: list[Node], chosen: int, writer: Conjunction, path: str) -> Verdict:
    """Whether no other schema of a `oneOf` takes a value that the writer writes and the chosen one takes."""
    for k, other in enumerate(alternatives):
        if k == chosen or comparison.are_apart(alternatives[chosen], other):
            continue
        if comparison.excludes_all(writer.with_schema(other)):
            continue
        if comparison.implies(other, writer):
            told = f"The alternatives {chosen} and {k} of the reader take the same value, and oneOf allows one of them."
            return different("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, told)
        reason = f"It is not plain that the alternatives {chosen} and {k} of the reader exclude each other."
        return doubtful("oneOf", path, reason)
    return PROVED


def narrowed(reader: Node, found: Sum, cases: list[Verdict], path: str) -> Verdict:
    """The verdict of a reader, from the verdicts about each alternative of the writer."""
    failed = [i for i, case in enumerate(cases) if not case.holds]
    if not failed:
        return PROVED
    common = [difference for difference in cases[0].differences if _in_each(difference[:2], cases)]
    if common:
        return Verdict(tuple(common))
    certain = [i for i in failed if cases[i].differences]
    if not certain:
        return cases[failed[0]]
    keyword = next((keyword for keyword in ("oneOf", "anyOf") if reader.has(keyword)), None)
    alternatives = len(reader.row(keyword)) if keyword else 1
    if keyword == "oneOf" and found.keyword == "anyOf":
        kind = "COMBINED_TYPE_CHANGED"
    else:
        kind = "SUM_TYPE_NARROWED" if alternatives < len(cases) else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
    reason = cases[certain[0]].differences[0].told
    told = f"The reader does not take alternative {certain[0]} of the writer's {found.keyword}: {reason}"
    return different(kind, f"{path}/{keyword}" if keyword else path or "/", told)


def _in_each(difference: tuple[str, str], cases: list[Verdict]) -> bool:
    """Whether each of the verdicts has a difference of that kind and path."""
    return all(any(found[:2] == difference for found in case.differences) for case in cases)
