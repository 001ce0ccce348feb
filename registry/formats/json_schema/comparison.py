"""What keeps readers that use a JSON Schema from reading what a writer wrote: the rules of Confluent's registry.

Its classes `SchemaDiff`, `ObjectSchemaDiff`, `ArraySchemaDiff`, `CombinedSchemaDiff` and so on walk both schemas at
once and name every difference by its kind and its place. A table says which kinds readers bear. `INCOMPATIBLE` is the
other half of that table, with a sentence for each kind; a kind that is not in it is compatible.

The walk sees a schema as Confluent's registry does, by the library everit-org/json-schema: as a `View` of one kind. A
schema whose keywords belong to several kinds is an `allOf` of them, such as `{"type": "string", "enum": ["a"]}`, and a
list of types is an `anyOf`. The walk does not look into `if`, `contains`, `propertyNames` and `format`, nor compare the
schemas of `patternProperties` with each other, so a change there is compatible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple

from kmini.registry.formats.json_schema.drafts import is_schema
from kmini.registry.formats.json_schema.name_patterns import matches
from kmini.registry.formats.json_schema.nodes import Node, identity, pointer
from kmini.registry.formats.schema_format import CannotCompare, Difference

MOST_STEPS: Final = 100_000
"""Pairs of schemas that one comparison looks at: they take some seconds."""
STEPS_OF_A_PATTERN: Final = 50
"""Steps that it counts to match a name with a pattern."""
MOST_DIFFERENCES: Final = 100
"""Differences of one pair of schemas that are named."""
REGISTERED_ANYWAY: Final = "The compatibility level NONE registers the schema."

COMBINED: Final = ("allOf", "anyOf", "oneOf")
LIMITS: Final = {
    "string": {"minLength": "MIN_LENGTH", "maxLength": "MAX_LENGTH"},
    "number": {
        "minimum": "MINIMUM",
        "maximum": "MAXIMUM",
        "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
        "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    },
    "array": {
        "minItems": "MIN_ITEMS",
        "maxItems": "MAX_ITEMS",
        "minContains": "MIN_CONTAINS",
        "maxContains": "MAX_CONTAINS",
    },
    "object": {"minProperties": "MIN_PROPERTIES", "maxProperties": "MAX_PROPERTIES"},
}
"""The keywords that limit a value, by its kind, with what the kinds of their differences begin with."""
KEYWORDS_OF_KINDS: Final = {
    "array": (
        *LIMITS["array"],
        *("items", "additionalItems", "prefixItems", "contains", "uniqueItems", "unevaluatedItems"),
    ),
    "object": (
        *LIMITS["object"],
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
    ),
    "number": (*LIMITS["number"], "multipleOf"),
    "string": (*LIMITS["string"], "pattern", "format"),
}
"""The keywords that make a schema one of the kind where `type` does not."""

_PLACES: Final = {"ITEM": "items", "PROPERTY": "properties"}
_LIMITED: Final = [name for names in LIMITS.values() for name in names.values()]

INCOMPATIBLE: Final = {
    **{f"{name}_ADDED": "The reader states {step}, and the writer does not." for name in _LIMITED},
    **{f"{name}_INCREASED": "The reader's {step} is above the writer's." for name in _LIMITED if "MIN" in name},
    **{f"{name}_DECREASED": "The reader's {step} is below the writer's." for name in _LIMITED if "MAX" in name},
    "TYPE_CHANGED": "The reader takes another kind of value than the writer.",
    "TYPE_NARROWED": "The reader takes integers, and the writer may write any number.",
    "SCHEMA_ADDED": "The reader has a schema here, and the writer has none.",
    "PATTERN_ADDED": "The reader takes strings of one pattern, and the writer states none.",
    "PATTERN_CHANGED": "The patterns of reader and writer differ.",
    "MULTIPLE_OF_ADDED": "The reader takes multiples of a number, and the writer may write other numbers.",
    "MULTIPLE_OF_EXPANDED": "The reader takes multiples of a multiple of the writer's number.",
    "MULTIPLE_OF_CHANGED": "The reader takes multiples of another number than the writer.",
    "ENUM_ARRAY_NARROWED": "The reader lists fewer values than the writer.",
    "ENUM_ARRAY_CHANGED": "The reader does not take each value that the writer lists.",
    "NOT_TYPE_EXTENDED": "The reader may refuse values that the writer does not.",
    "COMBINED_TYPE_CHANGED": "The reader combines its schemas in another way than the writer.",
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": "Schemas that the reader combines do not take what the writer's take.",
    "PRODUCT_TYPE_EXTENDED": "The reader has more schemas under allOf than the writer.",
    "SUM_TYPE_NARROWED": "The reader has fewer alternatives than the writer.",
    "REQUIRED_ATTRIBUTE_ADDED": "The reader requires the property {step}, and the writer does not.",
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "The reader requires the property {step}, which the writer's schema does not have."
    ),
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The reader's property {step} is new, and the writer's open content model allows any value there."
    ),
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The reader's property {step} is new, and does not take what the writer's schema of other properties takes."
    ),
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": (
        "The reader has no property {step}, and its closed content model refuses it."
    ),
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The reader has no property {step}, and its schema of other properties does not take what the writer's takes."
    ),
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The reader has a schema for item {step}, and the writer may write any value there."
    ),
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The reader's schema of item {step} is new, and does not take what the writer's schema of other items takes."
    ),
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": "The reader takes no item {step}, and the writer may write it.",
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The reader has no schema for item {step}, and its schema of other items does not take what the writer's takes."
    ),
    "ADDITIONAL_PROPERTIES_REMOVED": "The reader takes no other properties, and the writer may write them.",
    "ADDITIONAL_PROPERTIES_NARROWED": "The reader takes other properties by a schema, and the writer any.",
    "ADDITIONAL_ITEMS_REMOVED": "The reader takes no further items, and the writer may write them.",
    "ADDITIONAL_ITEMS_NARROWED": "The reader takes further items by a schema, and the writer any.",
    "UNEVALUATED_PROPERTIES_REMOVED": "The reader takes no unevaluated properties, and the writer may write them.",
    "UNEVALUATED_PROPERTIES_NARROWED": "The reader takes unevaluated properties by a schema, and the writer any.",
    "UNEVALUATED_ITEMS_REMOVED": "The reader takes no unevaluated items, and the writer may write them.",
    "UNEVALUATED_ITEMS_NARROWED": "The reader takes unevaluated items by a schema, and the writer any.",
    "UNIQUE_ITEMS_ADDED": "The reader takes arrays without equal items, and the writer may write equal ones.",
    "DEPENDENCY_ARRAY_ADDED": "Where {step} is, the reader requires properties, and the writer does not.",
    "DEPENDENCY_ARRAY_EXTENDED": "Where {step} is, the reader requires more properties than the writer.",
    "DEPENDENCY_ARRAY_CHANGED": "Where {step} is, the reader requires other properties than the writer.",
    "DEPENDENCY_SCHEMA_ADDED": "Where {step} is, the reader applies a schema, and the writer does not.",
}
"""What readers do not bear, by the kind, for a person. `step` is the last step of the place."""

Change = tuple[str, str]
"""The kind of a difference, and its place as a JSON pointer from the schemas that are compared."""


class View:
    """A schema as one of the kinds that the walk knows."""

    def __init__(self, kind: str, node: Node, source: str, members: Callable[[], list[View]] = list) -> None:
        self.kind = kind
        """"empty" takes every value and "false" none. "string", "number", "boolean", "null", "array", "object", "enum",
        "const", "not", "if" and those of `COMBINED` say what the schema states."""
        self.node = node
        """The schema that states it, whatever else that states."""
        self.source = source
        """Its keyword or the name of its type, which tells views of one schema apart."""
        self._members = members

    @cached_property
    def members(self) -> list[View]:
        """The schemas that a combined one combines."""
        return self._members()

    @cached_property
    def distinct(self) -> list[View]:
        """The members without those that repeat another."""
        return list({(view.source, identity(view.node.contents)): view for view in self.members}.values())

    @property
    def is_combined(self) -> bool:
        return self.kind in COMBINED


class Content(NamedTuple):
    """What an object may have beside its named properties, or an array behind its first items."""

    permits: bool
    """Whether `additional…` is not false."""
    schema: View | None
    """The schema of `additional…`."""
    unevaluated: View | None
    """The schema of `unevaluated…`."""
    has_patterns: bool = False

    @property
    def is_open(self) -> bool:
        """Whether any value may be there."""
        closed = self.unevaluated is not None and self.unevaluated.kind != "empty"
        return self.permits and self.schema is None and not closed and not self.has_patterns

    @property
    def cover(self) -> View | None:
        """The schema of what may be there in a partially open model; None in a closed one."""
        if self.schema is not None or not self.permits or self.unevaluated is None:
            return self.schema
        return None if self.unevaluated.kind in ("false", "empty") else self.unevaluated


def compare(reader: Node, writer: Node) -> Sequence[Difference]:
    """What keeps readers that use `reader` from reading what `writer` wrote. Raises CannotCompare.

    Paths are JSON pointers as a URI's fragment: "#/properties/id". They go through `$ref` as if its target stood there.
    """
    walk = _Walk()
    try:
        changes = dict.fromkeys(walk.changes(walk.view(writer), walk.view(reader)))
    except RecursionError:
        raise CannotCompare(f"The schemas are too deep for this registry to compare. {REGISTERED_ANYWAY}") from None
    return tuple(
        Difference(kind, f"#{path or '/'}", INCOMPATIBLE[kind].format(step=repr(path.rpartition("/")[2])))
        for kind, path in changes
    )


class _Walk:
    """One comparison of two documents, and what it knows about pairs of their schemas."""

    def __init__(self) -> None:
        self._steps = MOST_STEPS
        """Those that are left."""
        self._views: dict[int, View | None] = {}
        """The views of schemas; None while one is made."""
        self._known: dict[tuple[int, int], Sequence[Change]] = {}
        self._under_way: set[tuple[int, int]] = set()
        """Pairs under comparison. One of them that comes again is taken as compatible: schemas refer to themselves."""
        self._of_kind: dict[str, Callable[[View, View], Iterator[Change]]] = {
            "string": self._of_strings,
            "number": self._of_numbers,
            "array": self._of_arrays,
            "object": self._of_objects,
            "enum": self._of_lists,
            "const": self._of_constants,
            "not": self._of_negations,
        }

    def _spend(self, steps: int) -> None:
        """Count steps. Raises CannotCompare."""
        self._steps -= steps
        if self._steps < 0:
            raise CannotCompare(f"The schemas are too large for this registry to compare. {REGISTERED_ANYWAY}")

    # Views

    def view(self, node: Node) -> View:
        """The view of a schema, the same object for the same schema. Raises CannotCompare."""
        if node.key not in self._views:
            self._views[node.key] = None
            parts = [*self._referred(node), *self._stated(node)]
            if isinstance(node.contents, bool) or not parts:
                made = View("false" if node.contents is False else "empty", node, "")
            else:
                made = parts[0] if len(parts) == 1 else View("allOf", node, "", lambda: parts)
            self._views[node.key] = made
        known = self._views[node.key]
        if known is None:
            raise CannotCompare(f"This registry cannot compare $ref of a schema to itself. {REGISTERED_ANYWAY}")
        return known

    def _referred(self, node: Node) -> Iterator[View]:
        """The schema that `$ref` names."""
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if node.has(keyword):
                raise CannotCompare(
                    f"This registry cannot compare {keyword}: what it refers to depends on the schemas around it. "
                    f"{REGISTERED_ANYWAY}"
                )
        if node.has("$ref"):
            target = node.refers_to()
            if target is None:
                raise CannotCompare(f"Nothing is called {str(node.get('$ref'))[:100]}. {REGISTERED_ANYWAY}")
            yield self.view(target)

    def _stated(self, node: Node) -> Iterator[View]:
        """What the keywords of a schema state, each kind by itself."""
        for keyword in ("enum", "const", "not"):
            if node.has(keyword):
                yield View(keyword, node, keyword)
        for keyword in COMBINED:
            if node.has(keyword):
                yield View(keyword, node, keyword, partial(self._row, node, keyword))
        named = node.get("type")
        names = [named] if isinstance(named, str) else named or []
        typed = [View("number" if name == "integer" else name, node, name) for name in names]
        if isinstance(named, list):
            yield View("anyOf", node, "type", lambda: typed)
        else:
            yield from typed
        for kind, keywords in KEYWORDS_OF_KINDS.items():
            if all(view.kind != kind for view in typed) and any(map(node.has, keywords)):
                yield View(kind, node, kind)
        if any(map(node.has, ("if", "then", "else"))):
            yield View("if", node, "if")

    def _row(self, node: Node, keyword: str) -> list[View]:
        """The views of the schemas that a keyword lists."""
        return [self.view(inner) for inner in node.row(keyword)]

    def _named(self, node: Node, keyword: str) -> dict[str, View]:
        """The views of the schemas that a keyword has by name."""
        named = node.get(keyword) or {}
        return {name: self.view(node.at(keyword, name)) for name, inner in named.items() if is_schema(inner)}

    def _inner(self, node: Node, keyword: str) -> View | None:
        """The view of the schema that is the value of a keyword; None where none is there."""
        return self.view(node.at(keyword)) if is_schema(node.get(keyword)) else None

    # Pairs

    def changes(self, writer: View, reader: View) -> Sequence[Change]:
        """The incompatible differences of two schemas, the first of them. Raises CannotCompare."""
        pair = id(writer), id(reader)
        if pair in self._under_way:
            return ()
        if pair not in self._known:
            self._spend(1)
            self._under_way.add(pair)
            incompatible = (change for change in self._all_changes(writer, reader) if change[0] in INCOMPATIBLE)
            self._known[pair] = tuple(islice(incompatible, MOST_DIFFERENCES))
            self._under_way.discard(pair)
        return self._known[pair]

    def _fits(self, writer: View, reader: View) -> bool:
        return not self.changes(writer, reader)

    def _inside(self, writer: View | None, reader: View | None, *way: str | int) -> Iterator[Change]:
        """The differences of two schemas that stand at a way inside those under comparison."""
        path = pointer(*way)
        if reader is None:
            return
        if writer is None:
            yield "SCHEMA_ADDED", path
        else:
            yield from ((kind, path + inner) for kind, inner in self.changes(writer, reader))

    def _all_changes(self, writer: View, reader: View) -> Iterator[Change]:
        """The differences of two schemas, with kinds that readers bear among them."""
        if writer.is_combined and reader.is_combined:
            yield from self._of_combined(writer, reader)
            return
        takes_each = reader.is_combined and (reader.kind != "allOf" or len(reader.members) == 1)
        if takes_each and any(self._fits(writer, member) for member in reader.members):
            return
        writes_each = writer.is_combined and (writer.kind == "allOf" or len(writer.members) == 1)
        if writes_each and any(self._fits(member, reader) for member in writer.members):
            return
        if writer.kind == reader.kind:
            if writer.kind in self._of_kind:
                yield from self._of_kind[writer.kind](writer, reader)
        elif writer.kind != "false" and reader.kind != "empty":
            yield "TYPE_CHANGED", ""

    def _of_combined(self, writer: View, reader: View) -> Iterator[Change]:
        """Confluent's `CombinedSchemaDiff`. The members of the side that has fewer need partners on the other side."""
        writes_single, reads_single = len(writer.members) == 1, len(reader.members) == 1
        may_change = (
            writer.kind == reader.kind
            or reader.kind == "anyOf"
            or (writes_single and (reads_single or reader.kind == "oneOf"))
            or (reads_single and writer.kind == "allOf")
        )
        if not may_change:
            yield "COMBINED_TYPE_CHANGED", ""
            return
        written, read = writer.distinct, reader.distinct
        if len(written) < len(read) and reader.kind == "allOf":
            yield "PRODUCT_TYPE_EXTENDED", ""
        elif len(written) > len(read) and writer.kind != "allOf":
            yield "SUM_TYPE_NARROWED", ""
        partners = [[i for i, member in enumerate(read) if self._fits(view, member)] for view in written]
        if _most_pairs(partners) < min(len(written), len(read)):
            yield "COMBINED_TYPE_SUBSCHEMAS_CHANGED", ""

    # Kinds

    def _of_strings(self, writer: View, reader: View) -> Iterator[Change]:
        yield from _of_limits(writer, reader)
        before, after = writer.node.get("pattern"), reader.node.get("pattern")
        if after is not None and after != before:
            yield f"PATTERN_{'ADDED' if before is None else 'CHANGED'}", "/pattern"

    def _of_numbers(self, writer: View, reader: View) -> Iterator[Change]:
        yield from _of_limits(writer, reader)
        before, after = (view.node.get("multipleOf") for view in (writer, reader))
        if after is not None and after != before:
            yield f"MULTIPLE_OF_{_of_factors(before, after)}", "/multipleOf"
        if reader.source == "integer" != writer.source:
            yield "TYPE_NARROWED", ""

    def _of_lists(self, writer: View, reader: View) -> Iterator[Change]:
        before, after = ({identity(value) for value in view.node.get("enum")} for view in (writer, reader))
        self._spend(len(before) + len(after))
        if not after >= before:
            yield f"ENUM_ARRAY_{'NARROWED' if before > after else 'CHANGED'}", "/enum"

    def _of_constants(self, writer: View, reader: View) -> Iterator[Change]:
        if identity(writer.node.get("const")) != identity(reader.node.get("const")):
            yield "ENUM_ARRAY_CHANGED", "/const"

    def _of_negations(self, writer: View, reader: View) -> Iterator[Change]:
        written, read = (self.view(view.node.at("not")) for view in (writer, reader))
        if not self._fits(read, written):
            yield "NOT_TYPE_EXTENDED", "/not"

    def _of_arrays(self, writer: View, reader: View) -> Iterator[Change]:
        before, after = writer.node, reader.node
        written, read = self._content(before, "Items"), self._content(after, "Items")
        yield from self._inside(self._every_item(before), self._every_item(after), "items")
        firsts = zip_longest(self._row(before, before.first_items), self._row(after, after.first_items))
        for i, (earlier, later) in enumerate(firsts):
            if later is None:
                yield from self._removed(earlier, read, read.cover, "ITEM", i)
            elif earlier is None:
                yield from self._added(later, written, written.cover, "ITEM", i)
            else:
                yield from self._inside(earlier, later, "items", i)
        yield from self._of_content(written, read, "Items")
        yield from _of_limits(writer, reader)
        if after.get("uniqueItems") and not before.get("uniqueItems"):
            yield "UNIQUE_ITEMS_ADDED", "/uniqueItems"

    def _of_objects(self, writer: View, reader: View) -> Iterator[Change]:
        before, after = writer.node, reader.node
        written, read = self._content(before, "Properties"), self._content(after, "Properties")
        earlier, later = self._named(before, "properties"), self._named(after, "properties")
        required = frozenset(before.get("required") or ())
        needed = dict.fromkeys(name for name in after.get("required") or () if not _has_default(after, name))
        self._spend(len(earlier) + len(later))
        for name in needed:
            if name in earlier and name in later and name not in required:
                yield "REQUIRED_ATTRIBUTE_ADDED", pointer("required", name)
        for name in {**earlier, **later}:
            if name not in later:
                yield from self._removed(earlier[name], read, self._cover(after, read, name), "PROPERTY", name)
            elif name not in earlier:
                yield from self._added(later[name], written, self._cover(before, written, name), "PROPERTY", name)
                if name in needed and not written.is_open:
                    yield "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", pointer("properties", name)
            else:
                yield from self._inside(earlier[name], later[name], "properties", name)
        yield from self._of_dependencies(before, after)
        yield from self._of_content(written, read, "Properties")
        yield from _of_limits(writer, reader)

    def _of_dependencies(self, before: Node, after: Node) -> Iterator[Change]:
        """The differences of what has to hold where a property is."""
        for keyword in ("dependencies", "dependentRequired"):
            earlier, later = _lists(before, keyword), _lists(after, keyword)
            for name, names in later.items():
                if name not in earlier:
                    yield "DEPENDENCY_ARRAY_ADDED", pointer("dependencies", name)
                elif not names <= earlier[name]:
                    change = "EXTENDED" if names > earlier[name] else "CHANGED"
                    yield f"DEPENDENCY_ARRAY_{change}", pointer("dependencies", name)
        for keyword in ("dependencies", "dependentSchemas"):
            stated = self._named(before, keyword)
            for name, view in self._named(after, keyword).items():
                if name not in stated:
                    yield "DEPENDENCY_SCHEMA_ADDED", pointer("dependencies", name)
                else:
                    yield from self._inside(stated[name], view, "dependencies", name)

    # Content models

    def _every_item(self, node: Node) -> View | None:
        """The schema of every item; None where the first items have schemas of their own, and where none is stated."""
        items = node.get("items")
        if node.draft.number >= 2020 and (node.has("prefixItems") or isinstance(items, bool)):
            return None
        return self._inner(node, "items")

    def _content(self, node: Node, what: str) -> Content:
        """The content model of a schema; `what` is "Items" or "Properties"."""
        keyword = f"additional{what}"
        if what == "Items" and node.draft.number >= 2020:
            keyword = "items"
        stated = node.get(keyword)
        is_stated = isinstance(stated, dict) and (keyword != "items" or node.has("prefixItems"))
        return Content(
            permits=stated is not False,
            schema=self.view(node.at(keyword)) if is_stated else None,
            unevaluated=self._inner(node, f"unevaluated{what}"),
            has_patterns=what == "Properties" and bool(node.get("patternProperties")),
        )

    def _cover(self, node: Node, content: Content, name: str) -> View | None:
        """The schema that a partially open model has for a property; None in a closed one. Raises CannotCompare."""
        for pattern in node.get("patternProperties") or ():
            self._spend(STEPS_OF_A_PATTERN)
            is_match = matches(pattern, name)
            if is_match is None:
                raise CannotCompare(
                    "This registry cannot compare patternProperties: it is not plain whether the pattern "
                    f"{pattern[:100]!r} matches the name {name[:100]!r}. {REGISTERED_ANYWAY}"
                )
            if is_match:
                return self.view(node.at("patternProperties", pattern))
        return content.cover

    def _added(self, view: View, content: Content, cover: View | None, what: str, step: str | int) -> Iterator[Change]:
        """The differences of an item or a property of the reader that the writer does not name."""
        way = _PLACES[what], step
        if content.is_open:
            if view.kind != "empty":
                yield f"{what}_ADDED_TO_OPEN_CONTENT_MODEL", pointer(*way)
        elif cover is not None:
            yield from self._inside(cover, view, *way)
            if not self._fits(cover, view):
                yield f"{what}_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", pointer(*way)

    def _removed(
        self, view: View, content: Content, cover: View | None, what: str, step: str | int
    ) -> Iterator[Change]:
        """The differences of an item or a property of the writer that the reader does not name."""
        way = _PLACES[what], step
        if content.is_open:
            return
        if cover is not None:
            yield from self._inside(view, cover, *way)
            if not self._fits(view, cover):
                yield f"{what}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", pointer(*way)
        elif view.kind != "false":
            yield f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL", pointer(*way)

    def _of_content(self, writer: Content, reader: Content, what: str) -> Iterator[Change]:
        """The differences of `additional…` and `unevaluated…`."""
        path = f"/additional{what}"
        if writer.permits != reader.permits:
            yield f"ADDITIONAL_{what.upper()}_{'ADDED' if reader.permits else 'REMOVED'}", path
        elif writer.schema is None and reader.schema is not None:
            yield f"ADDITIONAL_{what.upper()}_NARROWED", path
        else:
            yield from self._inside(writer.schema, reader.schema, f"additional{what}")
        before, after = writer.unevaluated, reader.unevaluated
        if after is None or (before is not None and (before.kind == "false" or after.kind == "empty")):
            return
        if after.kind == "false":
            yield f"UNEVALUATED_{what.upper()}_REMOVED", f"/unevaluated{what}"
        elif before is None or before.kind == "empty":
            yield f"UNEVALUATED_{what.upper()}_NARROWED", f"/unevaluated{what}"
        else:
            yield from self._inside(before, after, f"unevaluated{what}")


def _has_default(node: Node, name: str) -> bool:
    """Whether the schema of a property has a default, which deserializers fill in."""
    schema = (node.get("properties") or {}).get(name)
    return isinstance(schema, dict) and "default" in schema


def _lists(node: Node, keyword: str) -> dict[str, frozenset[str]]:
    """The lists that a keyword has by name."""
    return {name: frozenset(names) for name, names in (node.get(keyword) or {}).items() if isinstance(names, list)}


def _of_limits(writer: View, reader: View) -> Iterator[Change]:
    """The differences of the keywords that limit a value."""
    for keyword, name in LIMITS[writer.kind].items():
        before, after = (_limit(view.node, keyword) for view in (writer, reader))
        if after is not None and after != before:
            change = "ADDED" if before is None else "INCREASED" if after > before else "DECREASED"
            yield f"{name}_{change}", pointer(keyword)


def _limit(node: Node, keyword: str) -> Any:
    """The number of a keyword; None without it. A bool of draft 4 is none, as in Confluent's `NumberSchemaDiff`."""
    if keyword in ("minContains", "maxContains") and not node.has("contains"):
        return None
    value = node.get(keyword)
    if keyword == "minContains" and value is None and node.draft.knows(keyword):
        return 1
    return None if isinstance(value, bool) else value


def _of_factors(before: Any, after: Any) -> str:
    """What became of `multipleOf`. Numbers below 1 count, too: Confluent's registry cuts fractions off, and fails."""
    if before is None:
        return "ADDED"
    quotient = Fraction(str(after)) / Fraction(str(before))
    return "EXPANDED" if quotient.denominator == 1 else "REDUCED" if quotient.numerator == 1 else "CHANGED"


def _most_pairs(partners: list[list[int]]) -> int:
    """The size of the largest matching in which each member has another partner. `partners` lists the candidates of
    each member."""
    chosen: dict[int, int] = {}

    def has_partner(member: int, asked: set[int]) -> bool:
        for partner in partners[member]:
            if partner not in asked:
                asked.add(partner)
                if partner not in chosen or has_partner(chosen[partner], asked):
                    chosen[partner] = member
                    return True
        return False

    return sum(has_partner(member, set()) for member in range(len(partners)))
