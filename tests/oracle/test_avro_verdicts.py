"""Avro schemas compared by kmini's registry and by Java's SchemaCompatibility, which Confluent's registry asks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kmini.registry.formats.avro_format import AvroFormat
from support import apache_kafka, registry_clients
from support.avro_schemas import Schemas

PAIRS = 600


@pytest.mark.oracle
@pytest.mark.usefixtures("need_kafka")
def test_verdicts_kinds_of_reasons_and_texts_are_those_of_java() -> None:
    if why := registry_clients.why_no_java():
        pytest.skip(why)
    schemas = Schemas(seed=17)
    pairs = [schemas.pair() for _ in range(PAIRS)]
    command = [
        *apache_kafka.java_command("-XX:TieredStopAtLevel=1", beside=registry_clients.folder()),
        str(Path(__file__).with_name("AvroVerdicts.java")),
    ]
    given = "".join(f"{reader}\t{writer}\n" for reader, writer in pairs)
    finished = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    answers = finished.stdout.splitlines()
    read = AvroFormat().read
    verdicts = set()
    for (reader, writer), answer in zip(pairs, answers, strict=True):
        text, *reasons = answer.split("\t")
        ours, theirs = read(reader), read(writer)
        told = f"{reader}\n{writer}"
        assert ours.text == text, told
        found = ours.differences(theirs)
        assert bool(found) is bool(reasons), told
        # Java tells no whole path of what is inside a union, and takes a missing field whose type is an enum with a
        # default for a field of another type.
        if '"default": "' not in reader:
            assert {one.kind for one in found} == {reason.split()[0] for reason in reasons}, told
        verdicts.add(bool(found))
        again = read(ours.normalized().text)
        assert again.normalized().text == again.text, told
    assert verdicts == {True, False}
