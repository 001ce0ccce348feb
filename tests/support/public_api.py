"""The public methods of a class, by name, with their signatures."""

from __future__ import annotations

import inspect


def public_methods(cls: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


def operations_of(table: type) -> dict[str, inspect.Signature]:
    """The methods of a broker or a cluster; the other methods of a table are for the table itself."""
    methods = public_methods(table)
    return {name: methods[name] for name in methods if inspect.iscoroutinefunction(getattr(table, name))}
