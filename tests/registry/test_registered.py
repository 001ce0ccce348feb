"""The state of the registry as a fold over records."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.registry.registered import Registered
from kmini.registry.schema_content import Reference, SchemaContent
from kmini.registry.schemas_topic import (
    Change,
    ConfigSet,
    ModeSet,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionStored,
    read,
    written,
)

A = SchemaContent("AVRO", "a")
B = SchemaContent("AVRO", "b")


def stored(subject: str, version: int, number: int, content: SchemaContent = A, *, is_deleted: bool = False) -> Change:
    return VersionStored(subject, version, SchemaVersion(subject, version, number, content, is_deleted))


def folded(*changes: Change) -> Registered:
    state = Registered()
    for change in changes:
        state.fold(change)
    return state


def told(state: Registered) -> object:
    """All that is registered."""
    names = state.subjects(deleted=True)
    return (
        [state.versions(name, deleted=True) for name in names],
        [[one.id for one in state.referrers(name, number)] for name in names for number in (1, 2, 3)],
        [sorted((one.subject, one.version) for one in state.with_id(number)) for number in range(5)],
        [sorted((one.subject, one.version) for one in state.with_content(one)) for one in (A, B)],
        [state.config_in_force(name) for name in (None, "s", "t")],
        [state.mode_in_force(name) for name in (None, "s", "t")],
    )


def test_versions_are_in_order_whatever_the_order_of_their_records() -> None:
    state = folded(stored("s", 2, 2, B), stored("s", 1, 1))
    assert [version.version for version in state.versions("s")] == [1, 2]
    assert (state.latest("s"), state.next_version("s"), state.next_id()) == (state.version("s", 2), 3, 3)


def test_a_deleted_subject_keeps_later_versions() -> None:
    state = folded(stored("s", 1, 1), stored("s", 2, 2, B), SubjectDeleted("s", 1))
    assert [version.version for version in state.versions("s")] == [2]
    assert [version.is_deleted for version in state.versions("s", deleted=True)] == [True, False]


def test_a_version_that_was_deleted_for_good_leaves_its_number_and_not_its_id() -> None:
    state = folded(stored("s", 1, 1), stored("s", 1, 1, is_deleted=True), VersionStored("s", 1, None))
    assert (state.subjects(deleted=True), state.with_id(1), state.with_guid(A.guid)) == ([], [], [])
    assert (state.next_version("s"), state.next_id()) == (1, 2)


def test_the_number_of_a_version_is_not_given_again_while_a_later_one_is_there() -> None:
    state = folded(stored("s", 1, 1), stored("s", 2, 2, B), stored("s", 3, 1, A), VersionStored("s", 2, None))
    assert (state.next_version("s"), state.next_id()) == (4, 3)


def test_a_second_schema_for_an_id_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kmini.registry"):
        state = folded(stored("s", 1, 1), stored("t", 1, 1, B))
    assert state.subjects() == ["s"]
    assert "gives version 1 of 't' the id 1 of another schema" in caplog.text


def test_clearing_a_subject_forgets_what_is_soft_deleted() -> None:
    state = folded(
        stored("s", 1, 1, is_deleted=True),
        stored("s", 2, 2, B),
        stored("t", 1, 1, is_deleted=True),
        SubjectCleared("s"),
    )
    assert [state.versions(name, deleted=True)[0].version for name in ("s", "t")] == [2, 1]
    state.fold(SubjectCleared(None))
    assert state.subjects(deleted=True) == ["s"]


def test_a_referrer_counts_until_it_is_soft_deleted() -> None:
    refers = SchemaContent("AVRO", "r", (Reference("a", "s", 1),))
    state = folded(stored("s", 1, 1), stored("t", 1, 2, refers))
    assert [one.subject for one in state.referrers("s", 1)] == ["t"]
    state.fold(stored("t", 1, 2, refers, is_deleted=True))
    assert state.referrers("s", 1) == []


def test_settings_of_a_subject_go_before_those_of_all() -> None:
    state = folded(
        ConfigSet(None, {"compatibilityLevel": "FULL", "normalize": True, "alias": "x"}),
        ConfigSet("s", {"compatibilityLevel": "NONE"}),
    )
    assert state.config_in_force("s") == {"compatibilityLevel": "NONE", "normalize": True}
    assert state.config_in_force("t") == {"compatibilityLevel": "FULL", "normalize": True}


def test_the_mode_that_overrides_is_that_of_every_subject() -> None:
    state = folded(ModeSet("s", "IMPORT"), ModeSet(None, "READONLY"))
    assert (state.mode_in_force("s"), state.mode_in_force("t")) == ("IMPORT", "READONLY")
    state.fold(ModeSet(None, "READONLY_OVERRIDE"))
    assert (state.mode_in_force("s"), state.mode("t")) == ("READONLY_OVERRIDE", "READONLY_OVERRIDE")


SUBJECTS = st.sampled_from(["s", "t"])
VERSIONS = st.integers(1, 3)
CONTENTS = st.sampled_from([A, B, SchemaContent("AVRO", "r", (Reference("a", "s", 1),))])
CHANGES = st.one_of(
    st.builds(
        lambda subject, version, content, is_deleted: stored(
            subject, version, {"a": 1, "b": 2, "r": 3}[content.text], content, is_deleted=is_deleted
        ),
        SUBJECTS,
        VERSIONS,
        CONTENTS,
        st.booleans(),
    ),
    st.builds(VersionStored, SUBJECTS, VERSIONS, st.none()),
    st.builds(SubjectDeleted, SUBJECTS, VERSIONS),
    st.builds(SubjectCleared, st.none() | SUBJECTS),
    st.builds(ConfigSet, st.none() | SUBJECTS, st.none() | st.just({"compatibilityLevel": "FULL"})),
    st.builds(ModeSet, st.none() | SUBJECTS, st.none() | st.sampled_from(["READONLY", "IMPORT"])),
)


@settings(deadline=None)
@given(st.lists(CHANGES, max_size=30))
def test_a_compacted_log_gives_the_same_state(changes: list[Change]) -> None:
    """Compaction keeps the last record of each key, and this registry never writes a version again that a later
    DELETE_SUBJECT is about without writing what it is."""
    records = [written(change) for change in changes]
    changes_read = [change for key, value in records if (change := read(key, value)) is not None]
    kept = [
        change
        for number, change in enumerate(changes)
        if records[number][0] not in [key for key, _ in records[number + 1 :]]
    ]
    assert told(folded(*changes_read)) == told(folded(*changes))
    if not any(isinstance(change, SubjectDeleted | SubjectCleared) for change in changes):
        assert told(folded(*kept)) == told(folded(*changes))
