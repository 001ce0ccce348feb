"""The seven levels of compatibility: which earlier versions a new schema is compared with, and in which direction.

A backward compatible schema reads what earlier schemas wrote; earlier schemas read what a forward compatible one
writes. The level counts the last version alone, or with `_TRANSITIVE` all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from kmini.broker.scheduler import in_thread
from kmini.registry.formats.schema_format import CannotCompare, Difference, Schema
from kmini.registry.registry_errors import CANNOT_JUDGE, RegistryError
from kmini.registry.schema_content import SchemaContent
from kmini.registry.schemas_topic import SchemaVersion

NONE = "NONE"


class Level(NamedTuple):
    """What a level asks of a new schema."""

    reads_older: bool
    """It must read what earlier schemas wrote."""
    read_by_older: bool
    """Earlier schemas must read what it writes."""
    is_transitive: bool
    """All earlier versions count, and not the last one alone."""


LEVELS = {
    NONE: Level(False, False, False),
    "BACKWARD": Level(True, False, False),
    "BACKWARD_TRANSITIVE": Level(True, False, True),
    "FORWARD": Level(False, True, False),
    "FORWARD_TRANSITIVE": Level(False, True, True),
    "FULL": Level(True, True, False),
    "FULL_TRANSITIVE": Level(True, True, True),
}

OTHER_TYPE = "Incompatible because of different schema type"

ReadEarlier = Callable[[SchemaContent], Awaitable[Schema]]
"""Reads the schema of an earlier version. Raises RegistryError."""


async def incompatibilities(
    level_name: str, kind: str, schema: Schema, earlier: Sequence[SchemaVersion], read: ReadEarlier
) -> list[str]:
    """What makes a schema of type `kind` incompatible with earlier ones, in words as Confluent's registry has them;
    empty where it is compatible. Only the first version with which it is incompatible counts, from the latest one back.
    Raises RegistryError where a comparison cannot be judged."""
    level = LEVELS[level_name]
    compared = earlier if level.is_transitive else earlier[-1:]
    if not (level.reads_older or level.read_by_older):
        return []
    for one in reversed(compared):
        if one.content.type != kind:
            found = [OTHER_TYPE]
        else:
            found = [*map(_told, await _differences(level, schema, one, read))]
        if found:
            return [
                *found,
                f"{{oldSchemaVersion: {one.version}}}",
                f"{{oldSchema: '{one.content.text}'}}",
                f"{{validateFields: 'false', compatibility: '{level_name}'}}",
            ]
    return []


async def _differences(level: Level, schema: Schema, earlier: SchemaVersion, read: ReadEarlier) -> list[Difference]:
    """What keeps the readers that the level is about from reading what the writers wrote. Raises RegistryError."""
    found: list[Difference] = []
    try:
        older = await read(earlier.content)
        pairs = [(schema, older)] if level.reads_older else []
        pairs += [(older, schema)] if level.read_by_older else []
        for reader, writer in pairs:
            # In a thread, as short JSON Schemas may take long: their alternatives are tried in each combination.
            found += await in_thread(reader.differences, writer)
    except (CannotCompare, RegistryError) as error:
        raise CANNOT_JUDGE(subject=earlier.subject, version=earlier.version, details=error) from error
    except RecursionError as error:
        details = "the schemas are nested too deeply"
        raise CANNOT_JUDGE(subject=earlier.subject, version=earlier.version, details=details) from error
    return found


def _told(difference: Difference) -> str:
    where = f" at {difference.path}" if difference.path else ""
    return f"{{errorType:'{difference.kind}', description:'{difference.told}{where}'}}"
