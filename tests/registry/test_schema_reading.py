"""Reading schemas: what is kept, what a thread does, references without end."""

from __future__ import annotations

import json
import threading

import pytest

from kmini.registry.formats.schema_format import ResolvedReference
from kmini.registry.registered import Registered
from kmini.registry.registry_errors import RegistryError
from kmini.registry.schema_content import Reference, SchemaContent
from kmini.registry.schema_reading import KEPT_SCHEMAS, LONG_CHARACTERS, MOST_REFERENCES, SchemaReader
from kmini.registry.schemas_topic import SchemaVersion, VersionStored
from support.registry_api import TinyFormat, TinySchema


class CountingFormat(TinyFormat):
    """Counts what it reads, and notes in which threads."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.reads = 0
        self.threads: set[int] = set()

    def read(self, text: str, references: tuple[ResolvedReference, ...] = ()) -> TinySchema:  # type: ignore[override]
        self.reads += 1
        self.threads.add(threading.get_ident())
        return super().read(text, references)


@pytest.fixture
def counting() -> CountingFormat:
    return CountingFormat("AVRO")


@pytest.fixture
def reader(counting: CountingFormat) -> SchemaReader:
    return SchemaReader({"AVRO": counting}.__getitem__, ["AVRO"])


def content(text: str, *references: Reference) -> SchemaContent:
    return SchemaContent("AVRO", text, references)


async def test_a_schema_is_read_once_until_many_others_were_read(
    reader: SchemaReader, counting: CountingFormat
) -> None:
    state = Registered()
    for _ in range(3):
        await reader.read(content("{}"), state)
    assert counting.reads == 1
    for number in range(KEPT_SCHEMAS):
        await reader.read(content(json.dumps({"fields": [str(number)]})), state)
    await reader.read(content("{}"), state)
    assert counting.reads == KEPT_SCHEMAS + 2


async def test_a_long_schema_is_read_in_a_thread(reader: SchemaReader, counting: CountingFormat) -> None:
    await reader.read(content("{}"), Registered())
    assert counting.threads == {threading.get_ident()}
    await reader.read(content(json.dumps({"fields": ["x" * LONG_CHARACTERS]})), Registered())
    assert len(counting.threads) == 2


def state_of(**references: list[Reference]) -> Registered:
    """Subjects with one version each, that refer to others."""
    state = Registered()
    for number, (subject, of_subject) in enumerate(references.items(), 1):
        version = SchemaVersion(subject, 1, number, content(json.dumps({"fields": [subject]}), *of_subject))
        state.fold(VersionStored(subject, 1, version))
    return state


async def test_a_schema_that_refers_to_itself_in_a_foreign_log_is_refused(reader: SchemaReader) -> None:
    state = state_of(a=[Reference("b", "b", 1)], b=[Reference("a", "a", 1)])
    with pytest.raises(RegistryError, match="refers to itself") as told:
        await reader.read(content("{}", Reference("a", "a", 1)), state)
    assert told.value.code == 42201


async def test_references_that_multiply_are_refused(reader: SchemaReader) -> None:
    layers = {f"s{number}": [Reference(f"r{copy}", f"s{number + 1}", 1) for copy in range(4)] for number in range(12)}
    state = state_of(**layers, s12=[])
    with pytest.raises(RegistryError, match=f"more than {MOST_REFERENCES} references"):
        await reader.read(content("{}", Reference("a", "s0", 1)), state)
