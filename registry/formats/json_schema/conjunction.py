"""What a writer's values have in common: several schemas that judge one value together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from kmini.registry.formats.json_schema.json_values import NUMBERS, TYPES, type_of
from kmini.registry.formats.json_schema.nodes import Node

FEW_VALUES: dict[str, tuple[Any, ...]] = {"null": (None,), "boolean": (True, False)}
"""The types of which each value can be listed."""


class Sum(NamedTuple):
    """An `anyOf` or `oneOf`: a value is valid under one of its schemas at least."""

    keyword: str
    alternatives: list[Node]

    @property
    def key(self) -> Hashable:
        """The same for the same place in a schema."""
        return self.keyword, tuple(node.key for node in self.alternatives)


class Limit(NamedTuple):
    """The end of a range of numbers."""

    value: Fraction
    exclusive: bool = False


class Conjunction:
    """Schemas that all hold for one value, with what `$ref` and `allOf` add to them. It does not change."""

    def __init__(
        self,
        nodes: Iterable[Node],
        told_apart: frozenset[Hashable] = frozenset(),
        excluded: tuple[Node, ...] = (),
        chosen: int = 0,
    ) -> None:
        self.chosen = chosen
        """The number of the alternative that was added last: the reader's is likely to have the same number."""
        self.told_apart = told_apart
        """The keys of the sums of which one alternative is among the schemas already."""
        self.nodes: dict[int, Node] = {}
        """The schemas by key."""
        self.excluded = {node.key: node for node in excluded}
        """Schemas that do not hold for the value."""
        self.sums: list[Sum] = []
        """The sums whose alternatives are still open."""
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node.key not in self.nodes and not node.takes_all:
                self.nodes[node.key] = node
                waiting += self._parts(node)

    def _parts(self, node: Node) -> list[Node]:
        """The schemas that a schema brings along; its sums and exclusions are noted."""
        for keyword in ("anyOf", "oneOf"):
            found = Sum(keyword, node.row(keyword))
            if found.alternatives and found.key not in self.told_apart:
                self.sums.append(found)
        excluded = node.inner("not")
        if excluded is not None:
            self.excluded[excluded.key] = excluded
        target = node.refers_to()
        return node.row("allOf") + ([] if target is None else [target])

    @property
    def key(self) -> Hashable:
        """The same for the same schemas."""
        return frozenset(self.nodes), self.told_apart, frozenset(self.excluded)

    @property
    def size(self) -> int:
        """How many schemas there are to look at."""
        return 1 + len(self.nodes) + sum(len(found.alternatives) for found in self.sums)

    def with_schema(self, node: Node) -> Conjunction:
        """What holds for those of these values that are valid under one schema more."""
        excluded = tuple(self.excluded.values())
        return Conjunction([*self.nodes.values(), node], self.told_apart, excluded, self.chosen)

    def alternatives_of(self, found: Sum) -> list[Conjunction]:
        """One conjunction for each alternative of a sum of this one."""
        cases = []
        for i, chosen in enumerate(found.alternatives):
            others = found.alternatives[:i] + found.alternatives[i + 1 :] if found.keyword == "oneOf" else []
            excluded = (*self.excluded.values(), *others)
            cases.append(Conjunction([*self.nodes.values(), chosen], self.told_apart | {found.key}, excluded, i))
        return cases

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that a value may have; empty where there is no value."""
        types = TYPES
        for node in self.nodes.values():
            types &= node.types
        listed = self._listed
        return types if listed is None else types & frozenset(map(type_of, listed.values()))

    @cached_property
    def _listed(self) -> dict[Hashable, Any] | None:
        """The values that every `enum` and `const` lists, by `identity`; None where there is no list."""
        lists = [node.values for node in self.nodes.values() if node.values is not None]
        if not lists:
            return None
        return {key: value for key, value in lists[0].items() if all(key in other for other in lists[1:])}

    @cached_property
    def values(self) -> dict[Hashable, Any] | None:
        """The values that are possible, by `identity`; None where they cannot be listed."""
        listed = self._listed
        if listed is not None:
            return {key: value for key, value in listed.items() if type_of(value) in self.types}
        if not self.types <= set(FEW_VALUES):
            return None
        return {("boolean", value) if value is not None else None: value for t in self.types for value in FEW_VALUES[t]}

    # Numbers and counts

    def lowest(self) -> Limit | None:
        """The lower end of the numbers."""
        limits = [limit for node in self.nodes.values() for limit in lower_limits(node)]
        limits += self._extreme(min, NUMBERS, exact)
        found = max(limits, key=lambda limit: (limit.value, limit.exclusive), default=None)
        if found is None or "fraction" in self.types:
            return found
        whole = Fraction(-(-found.value.numerator // found.value.denominator))
        return Limit(whole + 1 if found.exclusive and whole == found.value else whole)

    def highest(self) -> Limit | None:
        """The upper end of the numbers."""
        limits = [limit for node in self.nodes.values() for limit in upper_limits(node)]
        limits += self._extreme(max, NUMBERS, exact)
        found = min(limits, key=lambda limit: (limit.value, not limit.exclusive), default=None)
        if found is None or "fraction" in self.types:
            return found
        whole = Fraction(found.value.numerator // found.value.denominator)
        return Limit(whole - 1 if found.exclusive and whole == found.value else whole)

    def _extreme(
        self, extreme: Callable[..., Any], types: frozenset[str], measured: Callable[[Any], Fraction | int]
    ) -> list[Limit]:
        """The smallest or largest measure of the listed values of some types, where the values are listed."""
        measures = [measured(value) for value in (self.values or {}).values() if type_of(value) in types]
        return [Limit(Fraction(extreme(measures)))] if measures else []

    def least(self, keyword: str) -> int | None:
        """What is known of a count from below: the largest `minLength`, for example."""
        counts = [int(node.get(keyword)) for node in self.nodes.values() if node.has(keyword)]
        if keyword == "minProperties" and self.required:
            counts.append(len(self.required))
        if keyword == "minLength":
            counts += [int(limit.value) for limit in self._extreme(min, frozenset({"string"}), len)]
        return max(counts, default=None)

    def most(self, keyword: str) -> int | None:
        """What is known of a count from above: the smallest `maxLength`, for example."""
        counts = [int(node.get(keyword)) for node in self.nodes.values() if node.has(keyword)]
        if keyword == "maxProperties":
            counts += [len(node.properties) for node in self.nodes.values() if is_closed(node)]
        if keyword == "maxLength":
            counts += [int(limit.value) for limit in self._extreme(max, frozenset({"string"}), len)]
        return min(counts, default=None)

    def factors(self) -> list[Fraction]:
        """The numbers that each value is a multiple of."""
        found = [exact(node.get("multipleOf")) for node in self.nodes.values() if node.has("multipleOf")]
        return found if "fraction" in self.types else [*found, Fraction(1)]

    # Objects

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of the properties that are there in each object."""
        return frozenset().union(*(node.required for node in self.nodes.values()))

    def of_property(self, name: str) -> Conjunction:
        """What holds for the property of a name."""
        return Conjunction(schema for node in self.nodes.values() for schema in node.sure_schemas_of(name)[0])

    def of_item(self, position: int) -> Conjunction:
        """What holds for the item at a position, counted from 0."""
        schemas = []
        for node in self.nodes.values():
            first = node.first_items()
            schema = first[position] if position < len(first) else node.other_items()
            schemas += [] if schema is None else [schema]
        return Conjunction(schemas)

    def most_items(self) -> int | None:
        """The largest number of items that an array may have, by `maxItems` and by items that are closed."""
        counts = [self.most("maxItems")]
        for node in self.nodes.values():
            others = node.other_items()
            counts.append(len(node.first_items()) if others is not None and others.contents is False else None)
        return min((count for count in counts if count is not None), default=None)


def is_closed(node: Node) -> bool:
    """Whether a schema takes the properties alone that it names."""
    others = node.other_properties()
    return others is not None and others.contents is False and not node.patterns


def exact(number: float) -> Fraction:
    """A number as it is written: 0.1 is a tenth."""
    return Fraction(repr(number))


def lower_limits(node: Node) -> list[Limit]:
    """The lower limits that a schema states."""
    return _limits(node, "minimum", "exclusiveMinimum")


def upper_limits(node: Node) -> list[Limit]:
    """The upper limits that a schema states."""
    return _limits(node, "maximum", "exclusiveMaximum")


def _limits(node: Node, inclusive: str, exclusive: str) -> list[Limit]:
    """The limits under two keywords; draft 4 writes true under the second one for an exclusive first one."""
    limits = []
    if node.has(inclusive):
        limits.append(Limit(exact(node.get(inclusive)), node.get(exclusive) is True))
    if node.has(exclusive) and not isinstance(node.get(exclusive), bool):
        limits.append(Limit(exact(node.get(exclusive)), True))
    return limits
