"""The registry follows its topic: resets, snapshots, compaction, crashes, other leaders, other writers, damage."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kmini.broker.scheduler import Turn
from kmini.registry.formats.schema_format import ResolvedReference
from kmini.registry.schema_reading import KEPT_CHARACTERS, SchemaReader
from support.registry_api import RegistryApi, TinyFormat, TinySchema, tiny_reader

A = {"fields": ["a"]}
B = {"fields": ["a", "b"]}
KEY = b'{"keytype":"SCHEMA","subject":"%s","version":%d,"magic":1}'
VALUE = b'{"subject":"%s","version":%d,"id":%d,"schema":"{}","deleted":false}'


def all_told(api: RegistryApi) -> list[object]:
    """What the registry answers to requests for all there is."""
    paths = ("/subjects?deleted=true", "/schemas?deleted=true", "/config", "/config/s?defaultToGlobal=true", "/mode")
    return [api.get(path).document for path in paths]


def test_the_topic_is_created_by_the_first_change_and_is_compacted(api: RegistryApi) -> None:
    assert (api.get("/subjects").document, "_schemas" in api.control.done("GET", "/topics")) == ([], False)
    api.registered("s", A)
    settings = {one["name"]: one["value"] for one in api.control.done("GET", "/topics/_schemas/configs")}
    assert settings["cleanup.policy"] == "compact"
    assert len(api.control.done("GET", "/topics/_schemas/partitions")) == 1


def test_the_log_has_the_records_of_a_session_as_confluents_registry_writes_them(api: RegistryApi) -> None:
    """The session that the test of `schemas_topic` has from a recording, with the tiny format."""
    api.put("/config/t", {"compatibility": "NONE"})
    api.registered("t", A, B)
    api.delete("/subjects/t/versions/1")
    api.delete("/subjects/t/versions/1?permanent=true")
    api.registered("d", A)
    api.delete("/subjects/d")
    api.delete("/subjects/d?permanent=true")
    api.put("/mode/i", {"mode": "IMPORT"})
    api.registered("i", {"fields": []}, id=42, version=5)
    a, b = r"{\"fields\":[\"a\"]}", r"{\"fields\":[\"a\",\"b\"]}"
    t1, d1 = (f'{{"keytype":"SCHEMA","subject":"{name}","version":1,"magic":1}}' for name in "td")
    assert api.records() == [
        ('{"keytype":"CONFIG","subject":"t","magic":0}', '{"subject":"t","compatibilityLevel":"NONE"}'),
        (t1, f'{{"subject":"t","version":1,"id":1,"schema":"{a}","deleted":false}}'),
        (
            '{"keytype":"SCHEMA","subject":"t","version":2,"magic":1}',
            f'{{"subject":"t","version":2,"id":2,"schema":"{b}","deleted":false}}',
        ),
        (t1, f'{{"subject":"t","version":1,"id":1,"schema":"{a}","deleted":true}}'),
        (t1, None),
        (d1, f'{{"subject":"d","version":1,"id":3,"schema":"{a}","deleted":false}}'),
        ('{"keytype":"DELETE_SUBJECT","subject":"d","magic":0}', '{"subject":"d","version":1}'),
        (d1, None),
        ('{"keytype":"CLEAR_SUBJECT","subject":"i","magic":0}', '{"subject":"i"}'),
        ('{"keytype":"MODE","subject":"i","magic":0}', '{"subject":"i","mode":"IMPORT"}'),
        (
            '{"keytype":"SCHEMA","subject":"i","version":5,"magic":1}',
            r'{"subject":"i","version":5,"id":42,"schema":"{\"fields\":[]}","deleted":false}',
        ),
    ]


def test_a_reset_empties_the_registry(api: RegistryApi) -> None:
    api.registered("s", A, B)
    api.put("/config", {"compatibility": "FULL"})
    api.control.reset()
    assert (api.get("/subjects").document, api.get("/config").document) == ([], {"compatibilityLevel": "BACKWARD"})
    assert api.registered("s", B) == [1]


def test_a_snapshot_brings_schemas_back(api: RegistryApi) -> None:
    api.registered("s", A, B)
    before = all_told(api)
    api.control.done("POST", "/snapshots", {"name": "two"})
    api.registered("s", {"fields": []})
    api.delete("/subjects/s")
    api.control.done("POST", "/snapshots/two/restore")
    assert all_told(api) == before
    assert api.registered("t", {"fields": ["t"]}) == [3]
    api.control.done("DELETE", "/snapshots/two")


def test_a_deleted_topic_takes_the_schemas_with_it(api: RegistryApi) -> None:
    api.registered("s", A)
    api.control.done("DELETE", "/topics/_schemas")
    assert api.get("/subjects").document == []
    assert api.registered("t", B) == [1]


@pytest.mark.parametrize("ends", ["restart", "crash"])
def test_what_was_registered_survives_compaction_and_the_end_of_the_broker(api: RegistryApi, ends: str) -> None:
    api.registered("s", A, B)
    api.registered("t", A)
    api.put("/config/s", {"compatibility": "FULL"})
    api.put("/config/s", {"compatibility": "NONE"})
    api.delete("/subjects/t")
    api.registered("t", A)
    api.delete("/subjects/s/versions/1")
    before = all_told(api)
    api.control.done("POST", "/topics/_schemas/roll")
    api.control.done("POST", "/topics/_schemas/compact")
    assert all_told(api) == before
    if ends == "crash":
        api.control.done("POST", "/crash")
    else:
        api.control.done("POST", "/stop")
        stopped = api.get("/subjects")
        assert (stopped.status, stopped.error_code) == (500, 50001)
        assert stopped.message == "The topic _schemas cannot be reached: no broker runs"
        api.control.done("POST", "/start")
    assert all_told(api) == before
    assert len(api.records()) < 8


def test_another_program_may_write_to_the_topic(api: RegistryApi) -> None:
    api.registered("s", A)
    api.write(KEY % (b"t", 3), VALUE % (b"t", 3, 7))
    assert api.get("/subjects/t/versions").document == [3]
    assert api.registered("t", A, B) == [1, 8]
    assert api.get("/subjects/t/versions").document == [3, 4, 5]


CONFLUENTS = [
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"CONFIG","subject":"t","magic":0}', '{"subject":"t","compatibilityLevel":"NONE"}'),
    (
        '{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}',
        r'{"subject":"t","version":1,"id":1,"schema":"{\"type\":\"record\",\"name\":\"A\",\"fields\":[]}","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"t","version":2,"magic":1}',
        r'{"subject":"t","version":2,"id":2,"schema":"{\"type\":\"record\",\"name\":\"B\",\"fields\":[]}","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}',
        r'{"subject":"t","version":1,"id":1,"schema":"{\"type\":\"record\",\"name\":\"A\",\"fields\":[]}","deleted":true}',
    ),
    ('{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', None),
    (
        '{"keytype":"SCHEMA","subject":"d","version":1,"magic":1}',
        r'{"subject":"d","version":1,"id":3,"schema":"{\"type\":\"record\",\"name\":\"A\",\"fields\":[]}","deleted":false}',
    ),
    ('{"keytype":"DELETE_SUBJECT","subject":"d","magic":0}', '{"subject":"d","version":1}'),
    ('{"keytype":"SCHEMA","subject":"d","version":1,"magic":1}', None),
    ('{"keytype":"MODE","subject":"r","magic":0}', '{"subject":"r","mode":"READONLY"}'),
    ('{"keytype":"MODE","subject":"r","magic":0}', None),
    ('{"keytype":"CLEAR_SUBJECT","subject":"i","magic":0}', '{"subject":"i"}'),
    ('{"keytype":"MODE","subject":"i","magic":0}', '{"subject":"i","mode":"IMPORT"}'),
    (
        '{"keytype":"SCHEMA","subject":"i","version":5,"magic":1}',
        r'{"subject":"i","version":5,"id":42,"schema":"{\"type\":\"record\",\"name\":\"C\",\"fields\":[]}","deleted":false}',
    ),
]
"""A topic as Confluent's registry 7.4.0 wrote it (the recording that `test_schemas_topic.py` names)."""


def test_a_topic_of_confluents_registry_is_taken_over(api: RegistryApi) -> None:
    """The answers are those that Confluent's registry gave at the end of that recording (its `admin/rest.json`)."""
    api.control.done("POST", "/topics", {"name": "_schemas", "partitions": 1, "configs": {"cleanup.policy": "compact"}})
    for key, value in CONFLUENTS:
        api.write(key.encode(), None if value is None else value.encode())
    assert [(one["subject"], one["version"], one["id"], one["schema"]) for one in api.get("/schemas").document] == [
        ("i", 5, 42, '{"type":"record","name":"C","fields":[]}'),
        ("t", 2, 2, '{"type":"record","name":"B","fields":[]}'),
    ]
    assert api.get("/schemas/ids/1/versions").document == {"error_code": 40403, "message": "Schema not found"}
    assert api.get("/mode/i").document == {"mode": "IMPORT"}
    assert api.get("/config/t").document == {"compatibilityLevel": "NONE"}
    assert api.get("/subjects?deleted=true").document == ["i", "t"]
    assert api.registered("t", A) == [43]


def test_a_registration_decides_anew_where_another_program_has_written_meanwhile(tmp_path: Path) -> None:
    other = [(KEY % (b"s", 1), VALUE % (b"s", 1, 7))]

    class Meddling(TinyFormat):
        """While it reads a schema that is "slow" for the second time, another program writes."""

        reads = 0

        def read(self, text: str, references: Sequence[ResolvedReference] = ()) -> TinySchema:
            self.reads += "slow" in text
            if self.reads == 2 and other:
                api.write(*other.pop())
            return super().read(text, references)

    api = RegistryApi(str(tmp_path)).start(SchemaReader(Meddling, ["AVRO"]))
    try:
        api.registered("before", A)
        assert api.registered("s", {"fields": ["slow", "x" * KEPT_CHARACTERS]}) == [8]
        assert api.get("/subjects/s/versions").document == [1, 2]
    finally:
        api.end()


def test_damaged_records_stop_nothing_and_are_logged_once(api: RegistryApi, caplog: pytest.LogCaptureFixture) -> None:
    api.registered("s", A)
    with caplog.at_level(logging.WARNING, "kmini.registry"):
        api.write(b"\xff", b"x")
        api.write(b'{"keytype":"OTHER"}', b"{}")
        api.write(KEY % (b"u", 1), b"[[[[")
        api.write(b'{"subject":"k","version":1,"magic":1,"keytype":"SCHEMA"}', VALUE % (b"k", 1, 5))
        assert api.get("/subjects").document == ["k", "s"]
        assert api.get("/subjects").document == ["k", "s"]
    told = [record.getMessage() for record in caplog.records if record.name == "kmini.registry"]
    assert len(told) == 3
    assert all("is none of a registry's, and is left out" in one for one in told)
    assert api.registered("s", B) == [6]


@pytest.mark.parametrize(
    ("partitions", "policy", "says"),
    [
        (1, "delete", "the topic has cleanup.policy=delete, which deletes schemas"),
        (1, "compact,delete", "the topic has cleanup.policy=compact,delete, which deletes schemas"),
        (2, "compact", "the topic has 2 partitions, and a registry needs it to have one"),
    ],
)
def test_a_topic_in_which_schemas_would_not_stay_is_refused(
    api: RegistryApi, partitions: int, policy: str, says: str
) -> None:
    document = {"name": "_schemas", "partitions": partitions, "configs": {"cleanup.policy": policy}}
    api.control.done("POST", "/topics", document)
    for reply in (api.get("/subjects"), api.register("s", A)):
        assert (reply.status, reply.error_code) == (500, 50001)
        assert says in reply.message
    if partitions == 1:
        api.control.done("PATCH", "/topics/_schemas/configs", {"changes": {"cleanup.policy": "compact"}})
        assert api.registered("s", A) == [1]


def test_a_long_log_is_read_in_several_turns_and_by_one_request(
    api: RegistryApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.registered("s", *({"fields": [str(number)]} for number in range(20)))
    turns = []

    class ShortTurn(Turn):
        @property
        def is_over(self) -> bool:
            return True

        async def next(self) -> None:
            turns.append(1)
            await super().next()

    monkeypatch.setattr("kmini.registry.schema_log.Turn", ShortTurn)
    api.control.done("POST", "/crash")
    assert api.get("/subjects/s/versions").document == [*range(1, 21)]
    assert len(turns) == 20
    assert api.get("/subjects/s/versions").document == [*range(1, 21)]
    assert len(turns) == 20


# --- a cluster


def test_a_cluster_replicates_the_topic_and_goes_on_with_another_leader(cluster_api: RegistryApi) -> None:
    control = cluster_api.control
    cluster_api.registered("s", A)
    assert len(control.done("GET", "/topics/_schemas/replicas")) == 3
    for round_number in range(3):
        leader = control.done("GET", "/topics/_schemas/leader")
        other = next(number for number in (1, 2, 3) if number != leader)
        control.done("POST", "/topics/_schemas/leader", {"to": other})
        assert cluster_api.get("/subjects/s/versions").document == [*range(1, round_number + 2)]
        assert cluster_api.registered("s", {"fields": ["a", str(round_number)]}) == [round_number + 2]


def test_a_cluster_goes_on_when_the_leader_is_killed(cluster_api: RegistryApi) -> None:
    control = cluster_api.control
    cluster_api.registered("s", A, B)
    leader = control.done("GET", "/topics/_schemas/leader")
    control.done("POST", f"/brokers/{leader}/kill")
    assert cluster_api.get("/subjects/s/versions").document == [1, 2]
    assert cluster_api.registered("s", {"fields": []}) == [3]
    control.done("POST", f"/brokers/{leader}/restart")
    assert cluster_api.get("/subjects/s/versions").document == [1, 2, 3]


def test_registrations_while_leaders_move_are_all_there(cluster_api: RegistryApi) -> None:
    control = cluster_api.control
    cluster_api.registered("first", A)
    ids: dict[int, str] = {}

    def register(number: int) -> None:
        text = f'{{"fields":["{number}"]}}'
        reply = cluster_api.post(f"/subjects/s{number % 4}/versions", {"schema": text})
        assert reply.status == 200, reply
        assert ids.setdefault(reply.document["id"], text) == text

    with ThreadPoolExecutor(4) as pool:
        registered = [pool.submit(register, number) for number in range(120)]
        for round_number in range(12):
            control.ask("POST", "/topics/_schemas/leader", {"to": round_number % 3 + 1})  # refused by one that leads
        for one in registered:
            one.result()
    assert len(ids) == 120
    for number, text in ids.items():
        assert cluster_api.get(f"/schemas/ids/{number}").document["schema"] == text
    schemas = cluster_api.get("/schemas").document
    assert len({(one["subject"], one["version"]) for one in schemas}) == len(schemas) == 121


def test_a_registry_reads_what_one_before_it_has_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = str(tmp_path_factory.mktemp("kept"))
    first = RegistryApi(directory).start(tiny_reader())
    first.registered("s", A, B)
    before = all_told(first)
    first.end()
    second = RegistryApi(directory).start()
    try:
        assert all_told(second) == before
        assert second.registered("t", {"fields": ["t"]}) == [3]
    finally:
        second.end()
