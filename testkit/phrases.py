"""Phrases that messages share: numbers with their nouns, and sentences about what does not exist."""

from collections.abc import Collection, Iterable

from kmini.protocol.similar_names import similar_names

SHOWN = 10
"""Most names in an error message."""


MOST_LISTED = 20
"""Most names where none is near."""


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 record", "2 records"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def members_expected(members: int | None) -> str:
    """What a wait for a group was for: "any member", "1 member", "2 members"."""
    return "any member" if members is None else counted(members, "member")


def there_is_no(what: str, name: str, names: Iterable[str]) -> str:
    """Say that there is no `what` of this name, and which there are: "there is no topic ordres; there are: orders"."""
    known = sorted(names)
    if len(known) > SHOWN:
        similar = similar_names(name, known, SHOWN)
        others = [other for other in known if other not in similar]
        known = [*similar, *others[: SHOWN - len(similar)], f"and {len(known) - SHOWN} more"]
    return f"there is no {what} {name}; " + (f"there are: {', '.join(known)}" if known else "there are none")


def nearest(name: str, names: Collection[str]) -> str:
    """The end of a sentence about a name that does not exist: "; nearest: 'orders'", or which names there are."""
    near = similar_names(name, names)
    if near:
        return f"; nearest: {near[0]!r}"
    shown = sorted(names)[:MOST_LISTED]
    more = len(names) - len(shown)
    return f"; there are: {', '.join(shown)}{f' and {more} more' if more else ''}" if names else "; there are none"


def there_is_no_partition(topic: str, partition: int, count: int) -> str:
    """Say that a topic has no partition of this number, and which of its `count` it has."""
    has = "it has 0 only" if count == 1 else f"it has 0 to {count - 1}"
    return f"there is no partition {partition} of {topic}; {has}"
