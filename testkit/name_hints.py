"""The sentence that an unknown attribute or keyword ends in: "did you mean 'records'?"."""

from __future__ import annotations

from collections.abc import Iterable

from kmini.protocol.similar_names import similar_names


def unknown_attribute(owner: type, name: str) -> str:
    """Say that a handle has no such attribute, and which one has a similar name."""
    public = [one for one in dir(owner) if not one.startswith("_")]
    return f"{owner.__name__!r} object has no attribute {name!r}{similar(name, public)}"


def unknown_keyword(keywords: Iterable[str], parameters: Iterable[str]) -> str:
    """The end of a sentence about a call with keywords that it does not take: the parameter with a similar name."""
    known = [*parameters]
    return next((similar(name, known) for name in keywords if name not in known), "")


def similar(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about a name that does not exist: the most similar one, if one is similar."""
    near = similar_names(name, names)
    return f" (did you mean {near[0]!r}?)" if near else ""
