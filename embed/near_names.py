"""The sentences about what does not exist: they list what does, similar names first."""

from collections.abc import Iterable

SHOWN = 10
"""Most names in an error message."""


def there_is_no(what: str, name: str, names: Iterable[str]) -> str:
    """Say that there is no `what` of this name, and which there are: "there is no topic ordres; there are: orders"."""
    known = sorted(names)
    if len(known) > SHOWN:
        import difflib  # start-up time counts

        similar = difflib.get_close_matches(name, known, n=SHOWN)
        others = [other for other in known if other not in similar]
        known = [*similar, *others[: SHOWN - len(similar)], f"and {len(known) - SHOWN} more"]
    return f"there is no {what} {name}; " + (f"there are: {', '.join(known)}" if known else "there are none")


def there_is_no_partition(topic: str, partition: int, count: int) -> str:
    """Say that a topic has no partition of this number, and which of its `count` it has."""
    has = "it has 0 only" if count == 1 else f"it has 0 to {count - 1}"
    return f"there is no partition {partition} of {topic}; {has}"
