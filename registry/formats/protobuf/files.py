"""A schema with the files it imports, linked with each other and built into one pool of descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool

from kmini.registry.formats.protobuf.checks import check
from kmini.registry.formats.protobuf.known_files import KnownFile, known_file
from kmini.registry.formats.protobuf.linking import KindOf, link_names
from kmini.registry.formats.protobuf.options import interpret_extensions, interpret_own_options, without_extensions
from kmini.registry.formats.protobuf.walk import symbols_of
from kmini.registry.formats.schema_format import InvalidSchema

MOST_IMPORTED = 1_000
"""Files that a schema may import, those that its imports import included."""
_MOST_DEEP = 100
"""How long a chain of imports may be."""
_LONGEST_PACKAGE = 1_000
"""Characters of a package's name."""
_OPTIONS_FILE = "google/protobuf/descriptor.proto"


class _File(NamedTuple):
    symbols: dict[str, str]
    """The kinds of the full names that the file declares."""
    shown: dict[str, str]
    """Those, and the names of the files that it imports publicly."""


class Files:
    """The pool of one schema. `declared`: the declarations of what it refers to, by the path that an import names."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        self._declared = declared
        self._built: dict[str, _File] = {}
        self._building: list[str] = []
        self._import(_OPTIONS_FILE)

    def add(self, name: str, written: Any) -> Any:
        """Link a file with what it imports, and build it. Returns it with full names and interpreted options, as
        protoc would; `written` stays as it is. Raises InvalidSchema."""
        file = type(written)()
        file.CopyFrom(written)
        file.name = name
        file.ClearField("source_code_info")
        if file.syntax == "proto2":
            file.ClearField("syntax")
        if len(file.package) > _LONGEST_PACKAGE:
            raise InvalidSchema(f"The package has {len(file.package):,} characters; it may have {_LONGEST_PACKAGE:,}.")
        if len(self._building) == _MOST_DEEP:
            raise InvalidSchema(f"A chain of imports is longer than {_MOST_DEEP} files, the most there may be.")
        self._building.append(name)
        seen = self._seen(file)
        self._building.pop()
        own = symbols_of(file)
        kind_of: KindOf = (own | seen).get
        link_names(file, kind_of)
        extended = interpret_own_options(file)
        check(file)
        self._build(without_extensions(file) if extended else file)
        if extended:
            interpret_extensions(file, self.pool, kind_of)
        shown = dict(own)
        for place in file.public_dependency:
            shown.update(self._built[file.dependency[place]].shown)
        self._built[name] = _File(own, shown)
        return file

    def _seen(self, file: Any) -> dict[str, str]:
        """The kinds of the names that the imports of a file show it."""
        seen: dict[str, str] = {}
        places = (*file.public_dependency, *file.weak_dependency)
        if any(not 0 <= place < len(file.dependency) for place in places):
            raise InvalidSchema("A public or weak import of the descriptor is none of its imports.")
        for path in file.dependency:
            seen.update(self._import(path).shown)
        return seen

    def _import(self, path: str) -> _File:
        if path in self._built:
            return self._built[path]
        if path in self._building:
            chain = " → ".join((*self._building[self._building.index(path) :], path))
            raise InvalidSchema(f"The imports form a circle: {chain}.")
        declared = self._declared.get(path)
        if declared is None and (known := known_file(path)) is not None:
            return self._import_known(path, known)
        if declared is None:
            raise InvalidSchema(
                f'The schema imports "{path}", which is neither among its references nor a file that every schema may '
                "import, such as google/protobuf/timestamp.proto."
            )
        if len(self._built) == MOST_IMPORTED:
            raise InvalidSchema(f"The schema imports more than {MOST_IMPORTED} files, the most there may be.")
        try:
            self.add(path, declared)
        except InvalidSchema as problem:
            if str(problem).startswith(("In the import", "The imports form")):
                raise
            raise InvalidSchema(f'In the import "{path}": {problem}') from None
        return self._built[path]

    def _import_known(self, path: str, known: KnownFile) -> _File:
        """Build a file that is linked already."""
        shown = dict(known.symbols)
        for imported in known.imports:
            shown.update(self._import(imported).shown)
        self.pool.AddSerializedFile(known.serialized)
        self._built[path] = _File(known.symbols, shown)
        return self._built[path]

    def _build(self, file: Any) -> None:
        try:
            self.pool.AddSerializedFile(file.SerializeToString())
            self.pool.FindFileByName(file.name)
        except (TypeError, KeyError) as problem:
            told = str(problem).removeprefix("Couldn't build proto file into descriptor pool: ")
            raise InvalidSchema(f"The schema is no valid Protobuf: {told}.") from None
