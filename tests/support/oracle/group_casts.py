"""Groups whose members play a script: the short ways to get one into a state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.group_requests import Cast, describe, join, sync
from support.transcript import Transcript
from support.until import until


@contextmanager
def cast_of(transcript: Transcript, suffix: str = "") -> Iterator[Cast]:
    cast = Cast(transcript, suffix)
    try:
        yield cast
    finally:
        cast.close()


def joined(cast: Cast, name: str, version: int = 9, **wishes: Any) -> Any:
    """The only member of a group joins, in silence, and gets its share."""
    cast.begin(join(cast.group, **wishes), version, name=name)
    answer = cast.end("", name=name, quietly=True)
    if answer.error_code == 79:
        cast.begin(join(cast.group, answer.member_id, **wishes), version, name=name)
        answer = cast.end("", name=name, quietly=True)
    assert answer.error_code == 0, answer
    return answer


def settled(cast: Cast, *names: str, protocol: tuple[str, str] = ("consumer", "range"), **wishes: Any) -> int:
    """These members join and get their names as shares; the generation. Instance ids are names with an i in front."""
    first, *others = names
    instance = {name: name if name.startswith("i") else None for name in names}
    generation = joined(cast, first, 5 if instance[first] else 3, instance=instance[first], **wishes).generation_id
    for name in others:
        cast.begin(join(cast.group, instance=instance[name], **wishes), 5 if instance[name] else 3, name=name)
        while not cast.is_waiting(name):
            raise AssertionError("no member waits for the others")
    if others:
        cast.begin(join(cast.group, cast.ids[first], instance=instance[first], **wishes), name=first)
        generation = cast.end("", name=first, quietly=True).generation_id
        for name in others:
            cast.end("", name=name, quietly=True)
    for name in others:
        cast.begin(sync(cast.group, cast.ids[name], generation, instance=instance[name], protocol=protocol), name=name)
    shares = {cast.ids[name]: name.encode() for name in names}
    leading = sync(cast.group, cast.ids[first], generation, shares, instance=instance[first], protocol=protocol)
    cast.begin(leading, name=first)
    for name in names:
        assert cast.end("", name=name, quietly=True).error_code == 0
    return int(generation)


def until_members(cast: Cast, *names: str) -> None:
    """Return when the group has these members, and no others."""
    wanted = {cast.ids[name] for name in names}

    def members() -> set[str]:
        cast.begin(describe(cast.group), 5, name="script")
        (group,) = cast.end("", name="script", quietly=True).groups
        return {member.member_id for member in group.members}

    until(lambda: members() == wanted, f"the members {names}, and no others")
