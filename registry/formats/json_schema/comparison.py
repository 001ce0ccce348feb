"""Whether each value that is valid under a writer's schema is valid under a reader's.

The proof goes keyword by keyword through the reader's schema: each of them holds if the writer's schemas, taken
together, imply it. Where they do not, there is a difference, or a doubt where the keyword is beyond this comparison.
The proof is one-sided: it never takes a reader that refuses a value, except by the two leniencies that `objects.py`
and `scalars.py` name.

A schema that refers to itself is compared with the assumption that the comparison under way holds, which is sound once
it went into a property or an item, as JSON values end.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from kmini.registry.formats.json_schema.applicators import judge_applicators
from kmini.registry.formats.json_schema.arrays import judge_array
from kmini.registry.formats.json_schema.conjunction import Conjunction
from kmini.registry.formats.json_schema.emptiness import is_empty
from kmini.registry.formats.json_schema.nodes import Node
from kmini.registry.formats.json_schema.objects import judge_object
from kmini.registry.formats.json_schema.sameness import Sameness
from kmini.registry.formats.json_schema.scalars import judge_scalars
from kmini.registry.formats.json_schema.sums import narrowed
from kmini.registry.formats.json_schema.verdict import PROVED, Verdict, doubtful

FREE_STEPS: Final = 2_000
STEPS_PER_CHARACTER: Final = 10
MOST_STEPS: Final = 200_000
"""Pairs of schemas that one comparison looks at, at most as many as these three allow: some thousands take a second."""
MOST_OPEN: Final = 120
"""Comparisons inside comparisons: a proof that goes deeper is given up."""


class TooManySteps(Exception):
    """A comparison needs more steps than it has."""


class Comparison:
    """One comparison of a reader's schema with a writer's, and the proofs that it has so far."""

    def __init__(self, characters: int, strict: Comparison | None = None) -> None:
        """`characters` is the length of both schemas."""
        self.lenient = strict is not None
        """Whether a property that has to be there may be absent where it has a default."""
        self._strict = strict or self
        self.same = Sameness(self.spend)
        self._steps = min(FREE_STEPS + STEPS_PER_CHARACTER * characters, MOST_STEPS)
        """Those that are left."""
        self._known: dict[Hashable, Verdict] = {}
        self._apart: dict[frozenset[int], bool] = {}
        self._open: dict[Hashable, tuple[int, int]] = {}
        """The comparisons under way: how many there were before it, and how deep in the value it is."""
        self._depth = 0
        self._assumed = MOST_OPEN
        """The outermost comparison under way that was assumed to hold since this was set."""

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises TooManySteps."""
        self._strict._steps -= steps
        if self._strict._steps < 0:
            raise TooManySteps

    def inside(self, reader: Node, writer: Conjunction, path: str) -> Verdict:
        """Judge the schemas of a property or an item of the value that is under comparison."""
        self._depth += 1
        try:
            return self.judge(reader, writer, path)
        finally:
            self._depth -= 1

    def judge(self, reader: Node, writer: Conjunction, path: str) -> Verdict:
        """Whether the reader's schema takes each value of the writer. `path` says where the reader's schema is.

        Raises TooManySteps.
        """
        if reader.takes_all or not writer.types:
            return PROVED
        key = reader.key, writer.key
        if key in self._known:
            return self._known[key]
        if key in self._open:
            return self._assumption(key, path)
        number = len(self._open)
        if number >= MOST_OPEN:
            return doubtful("$ref", path, f"The schemas go more than {MOST_OPEN} levels deep.")
        self.spend(writer.size)
        outer, self._assumed = self._assumed, MOST_OPEN
        self._open[key] = number, self._depth
        verdict = self._judge(reader, writer, path)
        del self._open[key]
        # A proof that leans on a comparison still under way is no proof elsewhere.
        if not verdict.holds or self._assumed >= number:
            self._known[key] = verdict
        self._assumed = min(outer, self._assumed if self._assumed < number else MOST_OPEN)
        return verdict

    def _assumption(self, key: Hashable, path: str) -> Verdict:
        """The verdict of a comparison that is under way already."""
        number, depth = self._open[key]
        if depth == self._depth:
            return doubtful("$ref", path, "The schema refers to itself without a property or an item in between.")
        self._assumed = min(self._assumed, number)
        return PROVED

    def _judge(self, reader: Node, writer: Conjunction, path: str) -> Verdict:
        """Judge the reader's schema keyword by keyword, and again for each alternative of the writer."""
        verdict = PROVED
        for judge_some in (judge_scalars, judge_object, judge_array, judge_applicators):
            verdict = verdict.also(judge_some(self, reader, writer, path))
        if verdict.holds or self.says_same(reader, writer) or self._excludes_itself(writer):
            return PROVED
        for found in writer.sums[:1]:
            cases = [self.judge(reader, case, path) for case in writer.alternatives_of(found)]
            return narrowed(reader, found, cases, path)
        return verdict

    def says_same(self, reader: Node, writer: Conjunction) -> bool:
        """Whether one of the writer's schemas has the reader's words."""
        return any(self.same.of(reader, node) for node in writer.nodes.values())

    def _excludes_itself(self, writer: Conjunction) -> bool:
        """Whether several schemas of the writer leave no value. One of them alone is taken to leave some."""
        return (len(writer.nodes) > 1 or bool(writer.excluded)) and self.excludes_all(writer)

    def implies(self, reader: Node, writer: Conjunction) -> bool:
        """Whether it is proved, without leniency, that the reader's schema takes each value of the writer."""
        return self._strict.judge(reader, writer, "").holds

    def excludes_all(self, together: Conjunction) -> bool:
        """Whether it is proved that no value is valid under all these schemas."""
        self.spend(together.size)
        return is_empty(together, self._is_excluded)

    def are_apart(self, one: Node, other: Node) -> bool:
        """Whether it is proved that no value is valid under both schemas."""
        pair = frozenset((one.key, other.key))
        if pair not in self._apart:
            self._apart[pair] = self.excludes_all(Conjunction((one, other)))
        return self._apart[pair]

    def _is_excluded(self, together: Conjunction) -> bool:
        """Whether a schema that does not hold would take each of the values."""
        self.spend(together.size)
        return any(self.implies(node, together) for node in together.excluded.values())
