"""The owner of a purged topic, with a cluster that keeps metadata, or does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from kmini.pipeline.admin import AdminError
from kmini.pipeline.stages.topic_owner import COMMIT_EVERY_S, Owner, TopicOwnedError, TopicOwnership


class Metadata:
    """Keeps what is committed, or raises."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.commits = 0
        self.error: AdminError | None = None

    def offset_metadata(self, group: str, topics: Iterable[str]) -> dict[str, str]:
        if self.error is not None:
            raise self.error
        return {topic: self.kept[topic] for topic in topics if topic in self.kept}

    def commit_metadata(self, group: str, metadata: Mapping[str, str]) -> None:
        if self.error is not None:
            raise self.error
        self.commits += 1
        self.kept |= metadata


def owner(number: str, checkpoints: str = "/a", host: str = "h") -> Owner:
    return Owner(number, "p", checkpoints, host)


def test_the_second_pipeline_is_refused_with_both_names_and_may_take_over() -> None:
    metadata = Metadata()
    first = TopicOwnership(metadata, Owner("1", "first", "/a", "h"), ["t"])
    first.claim()
    second = TopicOwnership(metadata, Owner("2", "second", "/b", "h"), ["t"])
    with pytest.raises(TopicOwnedError) as refused:
        second.claim()
    assert "'t' is purged by pipeline 'first' (checkpoints /a on h)" in str(refused.value)
    assert "pipeline 'second' (checkpoints /b on h)" in str(refused.value)
    assert first.other_owner("t") == ""
    second.claim(takes_over=True)
    assert second.other_owner("t") == ""
    assert first.other_owner("t") == "pipeline 'second' (checkpoints /b on h)"


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (owner("1", "/moved", "another"), True),
        (owner("2"), True),  # the checkpoints were deleted to begin anew
        (owner("2", "/b"), False),
        (owner("2", host="another"), False),
    ],
)
def test_a_pipeline_is_known_by_the_id_in_its_checkpoints_or_by_their_place(other: Owner, is_same: bool) -> None:
    assert owner("1").is_same(other) is is_same


def test_checkpoints_at_a_uri_are_the_same_from_every_machine() -> None:
    assert Owner.of("p", "s3a://bucket/checkpoints", []).host == ""
    assert Owner.of("p", "/checkpoints", []).host != ""
    assert Owner.of("p", "/checkpoints", ["known", "other"]).id == "known"


def test_a_pipeline_that_goes_on_for_long_commits_again_that_it_owns_its_topics() -> None:
    metadata, now = Metadata(), [0.0]
    ownership = TopicOwnership(metadata, owner("1"), ["t"], now=lambda: now[0])
    ownership.claim()
    ownership.other_owner("t")
    assert metadata.commits == 1
    now[0] = COMMIT_EVERY_S + 1
    metadata.kept.clear()  # as by offsets.retention.minutes
    assert ownership.other_owner("t") == ""
    assert Owner.read(metadata.kept["t"]) == owner("1")


def test_a_refused_pipeline_owns_none_of_its_topics() -> None:
    metadata = Metadata()
    TopicOwnership(metadata, Owner("1", "first", "/a", "h"), ["b"]).claim()
    with pytest.raises(TopicOwnedError):
        TopicOwnership(metadata, Owner("2", "second", "/b", "h"), ["a", "b"]).claim()
    assert metadata.kept.keys() == {"b"}


def test_to_go_on_owning_a_topic_takes_no_other_one_back() -> None:
    metadata, now = Metadata(), [0.0]
    first = TopicOwnership(metadata, Owner("1", "first", "/a", "h"), ["a", "b"], now=lambda: now[0])
    first.claim()
    TopicOwnership(metadata, Owner("2", "second", "/b", "h"), ["b"]).claim(takes_over=True)
    now[0] = COMMIT_EVERY_S + 1
    assert first.other_owner("a") == ""
    assert "second" in first.other_owner("b")


def test_an_owner_that_was_lost_is_committed_again() -> None:
    metadata = Metadata()
    ownership = TopicOwnership(metadata, owner("1"), ["t"])
    ownership.claim()
    metadata.kept.clear()
    assert ownership.other_owner("t") == ""
    assert Owner.read(metadata.kept["t"]) == owner("1")


def test_a_text_of_somebody_else_is_no_owner() -> None:
    metadata = Metadata()
    for text in ("", "none", "{}", '["a"]', '{"id": "1"}'):
        metadata.kept["t"] = text
        assert TopicOwnership(metadata, owner("1"), ["t"]).other_owner("t") == ""


def test_without_the_right_to_keep_owners_a_pipeline_runs_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    metadata = Metadata()
    metadata.error = AdminError("GROUP_AUTHORIZATION_FAILED", "Group authorization failed", "group kmini.pipelines")
    ownership = TopicOwnership(metadata, owner("1"), ["t"])
    ownership.claim()
    assert ownership.other_owner("t") == ""
    assert caplog.text.count("GROUP_AUTHORIZATION_FAILED") == 1


def test_an_owner_that_cannot_be_read_for_another_reason_is_an_error() -> None:
    metadata = Metadata()
    metadata.error = AdminError("REQUEST_TIMED_OUT", "no answer")
    with pytest.raises(AdminError):
        TopicOwnership(metadata, owner("1"), ["t"]).claim()
