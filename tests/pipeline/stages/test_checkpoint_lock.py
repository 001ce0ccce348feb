"""The lease of a checkpoint that is not on this machine, with files and time that a test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kmini.pipeline.stages.checkpoint_lock import (
    EXPIRES_AFTER_S,
    LEASE_FILE,
    CheckpointInUseError,
    CheckpointLease,
)


class Store:
    """Files of an object store, and a time; `sleep` lets it pass, and something happen."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.now = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def lease(self) -> CheckpointLease:
        return CheckpointLease(self, now=lambda: self.now, sleep=self.sleep)

    def __str__(self) -> str:
        return "s3a://bucket/checkpoint"


@pytest.fixture
def store() -> Store:
    return Store()


pytestmark = pytest.mark.sockets  # a lease has a thread


def test_a_lease_is_there_while_it_is_held(store: Store) -> None:
    lease = store.lease()
    assert LEASE_FILE in store.files
    lease.release()
    assert store.files == {}
    store.lease().release()
    assert store.now < EXPIRES_AFTER_S, "a lease that was given back is free at once"


def test_a_lease_that_is_renewed_is_refused_with_its_holder(store: Store) -> None:
    first = store.lease()
    store.meanwhile = first.renew
    with pytest.raises(CheckpointInUseError, match=r"s3a://bucket/checkpoint is in use: process \d+ on \S+ writes"):
        store.lease()
    assert not first.is_lost
    first.release()


def test_a_lease_whose_holder_died_is_taken_after_a_while(store: Store) -> None:
    store.files[LEASE_FILE] = b"host 17 an-id 5"
    lease = store.lease()
    assert store.now >= EXPIRES_AFTER_S
    lease.release()


def test_a_lease_that_is_given_back_meanwhile_is_taken_at_once(store: Store) -> None:
    first = store.lease()

    def give_back() -> None:
        store.meanwhile = lambda: None
        first.release()

    store.meanwhile = give_back
    second = store.lease()
    assert store.now < EXPIRES_AFTER_S
    second.release()


def test_a_lease_that_is_just_being_renewed_is_not_taken(store: Store) -> None:
    """On some file systems the former file goes before the new one is there."""
    first = store.lease()
    held = store.files.pop(LEASE_FILE)

    def come_back() -> None:
        store.files.setdefault(LEASE_FILE, held)
        first.renew()

    store.meanwhile = come_back
    with pytest.raises(CheckpointInUseError, match="is in use: process"):
        store.lease()
    first.release()


def test_of_two_that_take_a_lease_in_the_same_moment_one_has_it(store: Store) -> None:
    store.meanwhile = lambda: store.write(LEASE_FILE, b"host 17 an-id 1")
    with pytest.raises(CheckpointInUseError, match="has begun to write"):
        store.lease()
    assert store.files[LEASE_FILE] == b"host 17 an-id 1"


def test_who_could_not_renew_a_lease_in_time_learns_that_it_is_lost(store: Store) -> None:
    lease = store.lease()
    store.files[LEASE_FILE] = b"host 17 an-id 1"
    lease.renew()
    assert lease.is_lost
    lease.release()
    assert store.files[LEASE_FILE] == b"host 17 an-id 1", "it belongs to another one now"
