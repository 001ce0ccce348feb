"""One schema inside a document, read by the rules of its draft."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, Final

from referencing.exceptions import Unresolvable

from kmini.registry.formats.json_schema.drafts import DEFAULT_DRAFT, Draft, is_schema
from kmini.registry.formats.json_schema.json_values import NUMBERS, TYPES, identity
from kmini.registry.formats.json_schema.name_patterns import matches

IN_PLACE: Final = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
"""Keywords that judge the same value by other schemas, which may evaluate its properties and items."""


class Node:
    """One schema of a document. It does not change."""

    def __init__(
        self,
        contents: dict[str, Any] | bool,
        resolver: Any,
        draft: Draft,
        targets: dict[int, Node | None] | None = None,
    ) -> None:
        self.contents = contents
        """The schema as it was read. Two nodes are the same schema when this is the same object."""
        self.draft = draft
        self._resolver = resolver
        """Resolves references from here; None in a schema that this program made, which has none."""
        self._targets: dict[int, Node | None] = {} if targets is None else targets
        """What the schemas of the document refer to, by the key of each. The check of a document fills it: the resolver
        panics where Python's stack is nearly full, as it may be in a comparison."""

    @property
    def key(self) -> int:
        """The same number for the same schema of a document."""
        return id(self.contents)

    def has(self, keyword: str) -> bool:
        """Whether a keyword is here and says something about values."""
        if isinstance(self.contents, bool) or keyword not in self.contents or not self.draft.knows(keyword):
            return False
        return keyword == "$ref" or "$ref" not in self.contents or not self.draft.hides_beside_ref

    def get(self, keyword: str) -> Any:
        """The value of a keyword that says something about values; None without it."""
        return self.contents[keyword] if self.has(keyword) and isinstance(self.contents, dict) else None

    def at(self, *way: str | int) -> Node:
        """The schema inside this one at a way such as ("properties", "id")."""
        inner: Any = self.contents
        for step in way:
            inner = inner[step]
        resolver = self._resolver
        if resolver is not None and isinstance(inner, dict) and self.draft.identifier in inner:
            resolver = resolver.in_subresource(self.draft.specification.create_resource(inner))
        return Node(inner, resolver, self.draft, self._targets)

    def inner(self, keyword: str) -> Node | None:
        """The schema that is the value of a keyword; None where there is none."""
        return None if self.get(keyword) is None else self.at(keyword)

    def row(self, keyword: str) -> list[Node]:
        """The schemas that a keyword such as `anyOf` lists; empty without it."""
        return [self.at(keyword, i) for i in range(len(self.get(keyword) or ()))]

    def refers_to(self) -> Node | None:
        """The schema that `$ref` names; None without it, and where nothing has that name."""
        reference = self.get("$ref")
        if not isinstance(reference, str) or self._resolver is None:
            return None
        if self.key not in self._targets:
            self._targets[self.key] = self._looked_up(reference)
        return self._targets[self.key]

    def _looked_up(self, reference: str) -> Node | None:
        try:
            found = self._resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError):  # a pointer into a string raises TypeError
            return None
        return Node(found.contents, found.resolver, self.draft, self._targets) if is_schema(found.contents) else None

    @property
    def takes_all(self) -> bool:
        """Whether each value is valid by the look of it: the schema is true, or has no keyword that says something."""
        if isinstance(self.contents, bool):
            return self.contents
        return not any(map(self.has, self.contents))

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that values may have by `type` alone."""
        if self.contents is False:
            return frozenset()
        named = self.get("type")
        if named is None:
            return TYPES
        names = {named} if isinstance(named, str) else set(named)
        return frozenset(names & TYPES) | (NUMBERS if "number" in names else frozenset())

    @cached_property
    def values(self) -> dict[Hashable, Any] | None:
        """The values that `enum` or `const` lists, by `identity`; None where any value may be."""
        listed = [self.get(keyword) for keyword in ("enum", "const") if self.has(keyword)]
        if not listed:
            return None
        values = [listed[0]] if not self.has("enum") else listed[0]
        kept = {identity(value): value for value in values}
        if len(listed) == 2:
            constant = identity(listed[1])
            return {constant: listed[1]} if constant in kept else {}
        return kept

    # Objects

    @property
    def properties(self) -> dict[str, Any]:
        """The schemas of properties by name, as they were read."""
        return self.get("properties") or {}

    @property
    def patterns(self) -> dict[str, Any]:
        """The schemas of properties by pattern, as they were read."""
        return self.get("patternProperties") or {}

    def other_properties(self) -> Node | None:
        """The schema of properties that have neither name nor pattern here; None where it takes each value."""
        keyword = "additionalProperties"
        if self.get(keyword) is None and self.get("unevaluatedProperties") is not None and not self.judges_in_place:
            keyword = "unevaluatedProperties"
        found = self.inner(keyword)
        return None if found is None or found.takes_all else found

    @property
    def judges_in_place(self) -> bool:
        """Whether other schemas judge the same value, so that `unevaluated…` depends on them."""
        return any(map(self.has, IN_PLACE))

    def sure_schemas_of(self, name: str) -> tuple[list[Node], list[str]]:
        """The schemas that surely judge the property of that name, and the patterns that are too hard to tell.

        The schema of other properties is among them where no pattern is left to tell.
        """
        schemas = [self.at("properties", name)] if name in self.properties else []
        untold = []
        for pattern in self.patterns:
            told = matches(pattern, name)
            if told:
                schemas.append(self.at("patternProperties", pattern))
            elif told is None:
                untold.append(pattern)
        others = self.other_properties()
        if not schemas and not untold and others is not None:
            schemas.append(others)
        return schemas, untold

    @property
    def required(self) -> frozenset[str]:
        """The names of the properties that have to be there."""
        return frozenset(self.get("required") or ())

    def required_beside(self) -> dict[str, frozenset[str]]:
        """The names of the properties that have to be there where another one is, by that one's name."""
        listed = {**(self.get("dependencies") or {}), **(self.get("dependentRequired") or {})}
        return {name: frozenset(names) for name, names in listed.items() if isinstance(names, list)}

    def schemas_beside(self) -> dict[str, Node]:
        """The schemas that judge an object where a property is there, by its name."""
        return {
            name: self.at(keyword, name)
            for keyword in ("dependencies", "dependentSchemas")
            for name, schema in (self.get(keyword) or {}).items()
            if not isinstance(schema, list)
        }

    # Arrays

    def first_items(self) -> list[Node]:
        """The schemas of the first items, one for each."""
        if self.draft.number >= 2020:
            return self.row("prefixItems")
        return self.row("items") if isinstance(self.get("items"), list) else []

    def other_items_keyword(self) -> str:
        """The keyword that judges the items behind the first ones."""
        keyword = "additionalItems" if self.draft.number < 2020 and isinstance(self.get("items"), list) else "items"
        lone = self.get(keyword) is None and not self.judges_in_place and self.get("contains") is None
        return "unevaluatedItems" if lone and self.get("unevaluatedItems") is not None else keyword

    def other_items(self) -> Node | None:
        """The schema of the items behind the first ones; None where it takes each value."""
        found = self.inner(self.other_items_keyword())
        return None if found is None or found.takes_all else found


OF_TYPE: Final = {name: Node({"type": name}, None, DEFAULT_DRAFT) for name in (*sorted(TYPES - {"fraction"}), "number")}
"""A schema of each type, for telling the types of a writer's values apart."""
