"""Reads a text and what it refers to as a JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

import jsonschema_specifications
from referencing import Resource

from kmini.registry.formats.json_schema.drafts import DEFAULT_DRAFT, DRAFTS, Draft, draft_of, is_schema, places
from kmini.registry.formats.json_schema.metaschema import Metaschema
from kmini.registry.formats.json_schema.nodes import Node, pointer
from kmini.registry.formats.schema_format import InvalidSchema, ResolvedReference
from kmini.registry.formats.values import MOST_LEVELS, is_deeper
from kmini.web.strict_json import NotJson, read_json

MOST_CHARACTERS: Final = 5 << 20
MOST_SCHEMAS: Final = 50_000
"""Schemas inside a schema."""


class Document(NamedTuple):
    """A schema with all that it refers to."""

    contents: dict[str, Any] | bool
    root: Node
    foreign: str
    """Why its values cannot be told from the drafts of this program: a `$schema` of another kind; empty if they can."""


def parsed(text: str) -> Any:
    """The JSON value of a text. Raises InvalidSchema."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidSchema(f"The schema has {len(text)} characters. Expected at most {MOST_CHARACTERS}.")
    try:
        value = read_json(text)
    except NotJson as problem:
        raise InvalidSchema(f"The schema is no JSON: {problem}.") from problem
    if is_deeper(value, MOST_LEVELS):
        raise InvalidSchema(
            f"The schema is too deep. Expected at most {MOST_LEVELS} objects and arrays inside each other."
        )
    return value


def read_document(text: str, references: Sequence[ResolvedReference]) -> Document:
    """The schema of a text and of what it refers to. Raises InvalidSchema."""
    contents = parsed(text)
    if not is_schema(contents):
        raise InvalidSchema("The schema is no JSON Schema. Expected an object, true or false.")
    named = contents.get("$schema") if isinstance(contents, dict) else None
    draft = DEFAULT_DRAFT if named is None else draft_of(named)
    foreign = "" if draft is not None else f"The schema is of {str(named)[:100]}"
    draft = draft or DRAFTS[-1]
    checked = _Checked(draft)
    checked.check(Node(contents, None, draft), "#")
    root = Node(contents, None, draft)
    if isinstance(contents, dict):
        resources = _resources(contents, references, draft)
        foreign = foreign or _other_draft([contents, *(found.contents for _, found in resources)], draft)
        try:
            registry = jsonschema_specifications.REGISTRY.with_resources(resources).crawl()
            root = Node(contents, registry.resolver(_identifier(contents, draft)), draft)
            checked.check_references(root)
        except InvalidSchema:
            raise
        except ValueError as problem:
            raise InvalidSchema(f"The schema has a URI that is none: {problem}.") from problem
    return Document(contents, root, foreign)


def _identifier(contents: dict[str, Any], draft: Draft) -> str:
    """The URI of a document; empty if it states none."""
    found = contents.get(draft.identifier)
    return found.rstrip("#") if isinstance(found, str) else ""


def _resources(
    contents: dict[str, Any], references: Sequence[ResolvedReference], draft: Draft
) -> list[tuple[str, Resource[Any]]]:
    """The documents by URI: by the names of references, too, also as seen from the document that has them."""
    base = _identifier(contents, draft)
    found = {base: draft.specification.create_resource(contents)}
    waiting = [(base, reference) for reference in references]
    while waiting:
        base, reference = waiting.pop(0)
        inner = parsed(reference.text)
        if not is_schema(inner):
            raise InvalidSchema(f"The reference {reference.name!r} is no JSON Schema.")
        resource = draft.specification.create_resource(inner)
        own = _identifier(inner, draft) if isinstance(inner, dict) else ""
        for uri in (reference.name, urljoin(base, reference.name), own or reference.name):
            found.setdefault(uri, resource)
        waiting += [(own or urljoin(base, reference.name), deeper) for deeper in reference.references]
    return list(found.items())


def _other_draft(documents: list[Any], draft: Draft) -> str:
    """Why documents cannot be read by one draft; empty if they can."""
    waiting = [document for document in documents if isinstance(document, dict)]
    while waiting:
        schema = waiting.pop()
        if "$schema" in schema and draft_of(schema["$schema"]) != draft:
            return f"The schema refers to one of {str(schema['$schema'])[:100]}"
        waiting += [inner for _, inner in places(schema) if isinstance(inner, dict)]
    return ""


class _Checked:
    """The schemas of a document that were checked already."""

    def __init__(self, draft: Draft) -> None:
        self._metaschema = Metaschema(draft)
        self._seen: set[int] = set()

    def check(self, start: Node, path: str) -> None:
        """Check a schema and those inside it. Raises InvalidSchema."""
        waiting = [(start.contents, path)]
        while waiting:
            schema, at = waiting.pop()
            if isinstance(schema, bool) or id(schema) in self._seen:
                continue
            self._seen.add(id(schema))
            if len(self._seen) > MOST_SCHEMAS:
                raise InvalidSchema(f"The schema is too large. Expected at most {MOST_SCHEMAS} schemas inside it.")
            problem = self._metaschema.refusal(schema)
            if problem is not None:
                raise InvalidSchema(f"The schema at {at} is no JSON Schema: {problem}")
            waiting += [(inner, at + pointer(*way)) for way, inner in places(schema)]

    def check_references(self, root: Node) -> None:
        """Check that each reference leads to a schema, and that schema, too. Raises InvalidSchema."""
        waiting = [(root, "#")]
        followed: set[int] = set()
        while waiting:
            node, at = waiting.pop()
            if isinstance(node.contents, bool) or node.key in followed:
                continue
            followed.add(node.key)
            if "$ref" in node.contents:
                target = node.refers_to()
                if target is None:
                    raise InvalidSchema(
                        f"The schema refers to {str(node.contents['$ref'])[:200]!r} at {at}, which is no schema of it "
                        "and none of its references."
                    )
                self.check(target, f"{at}/$ref")
                waiting.append((target, f"{at}/$ref"))
            waiting += [(node.at(*way), at + pointer(*way)) for way, _ in places(node.contents)]
