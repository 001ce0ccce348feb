"""One schema inside a document, read by the rules of its draft, and the JSON values in it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from referencing.exceptions import Unresolvable

from kmini.registry.formats.json_schema.drafts import Draft, is_schema


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
        """Resolves references from here; None in a schema that has none."""
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

    def row(self, keyword: str) -> list[Node]:
        """The schemas that a keyword such as `anyOf` lists; empty without it."""
        return [self.at(keyword, i) for i in range(len(self.get(keyword) or ()))]

    @property
    def first_items(self) -> str:
        """The keyword that lists the schemas of the first items; empty where none does."""
        keyword = "prefixItems" if self.draft.number >= 2020 else "items"
        return keyword if isinstance(self.get(keyword), list) else ""

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
            target = self._resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError):  # a pointer into a string raises TypeError
            return None
        return Node(target.contents, target.resolver, self.draft, self._targets) if is_schema(target.contents) else None


def identity(value: Any) -> Hashable:
    """A key that two values share when JSON Schema calls them equal: 1 equals 1.0, and true does not equal 1."""
    if isinstance(value, dict):
        return "object", frozenset((name, identity(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return "array", tuple(map(identity, value))
    if isinstance(value, bool):
        return "boolean", value
    scalar: Hashable = value
    return scalar


def pointer(*steps: str | int) -> str:
    """A way into a JSON document as the end of a JSON pointer: "/properties/a~1b"."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
