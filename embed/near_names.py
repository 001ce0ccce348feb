"""The sentence about a name that does not exist: it lists those that do, the similar ones first."""

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
