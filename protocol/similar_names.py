"""Misspelt names: which of the known ones is meant."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100
"""Characters of a name that are compared: a client may send any number."""

LEAST = 0.6
"""How similar two names are, at least, for one to be taken for the other (`difflib`)."""


def similar_names(name: str, names: Iterable[str], most: int = 1) -> list[str]:
    """The names that are most like this one, the most similar first; none where none is near. Case does not count."""
    from difflib import get_close_matches  # only a misspelt name needs it

    known = {one.casefold(): one for one in names}
    return [known[one] for one in get_close_matches(name[:LONGEST].casefold(), known, most, LEAST)]
