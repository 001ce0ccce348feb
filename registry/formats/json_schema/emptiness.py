"""Whether no value at all is valid under several schemas together: so it is with two that exclude each other."""

from __future__ import annotations

from collections.abc import Callable

from kmini.registry.formats.json_schema.conjunction import Conjunction

DEEPEST = 8
"""Schemas inside schemas that are looked at for a contradiction."""


def is_empty(together: Conjunction, is_excluded: Callable[[Conjunction], bool], depth: int = 0) -> bool:
    """Whether it is proved that no value is valid under all the schemas. False says nothing.

    `is_excluded` says whether one of the schemas that do not hold would take each of the values.
    """
    if not together.types or together.values == {}:
        return True
    if depth > DEEPEST:
        return False
    if together.types == {"object"} and _no_object(together, is_excluded, depth):
        return True
    if together.types == {"array"} and _no_array(together, is_excluded, depth):
        return True
    if together.types <= {"integer", "fraction"} and _no_number(together):
        return True
    if together.types == {"string"} and _crossed(together, "minLength", "maxLength"):
        return True
    if is_excluded(together):
        return True
    return any(
        all(is_empty(case, is_excluded, depth + 1) for case in together.alternatives_of(found))
        for found in together.sums[:1]
    )


def _crossed(together: Conjunction, least: str, most: str) -> bool:
    """Whether a count would have to be larger than it may be."""
    lower, upper = together.least(least), together.most(most)
    return lower is not None and upper is not None and lower > upper


def _no_number(together: Conjunction) -> bool:
    """Whether the limits leave no number."""
    lower, upper = together.lowest(), together.highest()
    if lower is None or upper is None:
        return False
    return lower.value > upper.value or (lower.value == upper.value and (lower.exclusive or upper.exclusive))


def _no_object(together: Conjunction, is_excluded: Callable[[Conjunction], bool], depth: int) -> bool:
    """Whether the counts leave no object, or a property that has to be there cannot have a value."""
    if _crossed(together, "minProperties", "maxProperties"):
        return True
    return any(is_empty(together.of_property(name), is_excluded, depth + 1) for name in sorted(together.required))


def _no_array(together: Conjunction, is_excluded: Callable[[Conjunction], bool], depth: int) -> bool:
    """Whether the counts leave no array, or an item that has to be there cannot have a value."""
    least, most = together.least("minItems") or 0, together.most_items()
    if most is not None and least > most:
        return True
    first = max((len(node.first_items()) for node in together.nodes.values()), default=0)
    return any(is_empty(together.of_item(i), is_excluded, depth + 1) for i in range(min(least, first + 1)))
