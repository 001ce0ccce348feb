"""The page of the Python API, read off the docstrings of the public names."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Callable
from inspect import cleandoc, isfunction
from textwrap import dedent

from markdown_page import NOTE, cell, one_line, table

import kmini as public
from kmini import pytest_plugin
from kmini.broker.api.key_fields import KeyPartition, Producer
from kmini.broker.network.socket_server import ClosedClient
from kmini.protocol import errors
from kmini.protocol.topics import TopicPartition

_API = """# The Python API

The names that `from kmini import ...` gives. [testing](testing/README.md) and [cluster.md](cluster.md) show how
they are used.
`kmini.records` has `tombstone` and `is_tombstone`, for [explicit tombstones](tombstones.md).

Every method of `Broker`, `Cluster` and their handles blocks until it is done, in any thread, with or without an event
loop running there. The classes whose names begin with `Async`, which `aio` gives, have the same names with methods to
await.

Besides the errors in the tables, every call may raise

| | |
|---|---|
| `TypeError`, `ValueError` | a wrong argument; the text names it |
| `RuntimeError` | the broker does not run, or was stopped during the call; no broker of a cluster runs |
| | a process that was forked since the start calls; a method is awaited on trio |
| `KafkaError` | Kafka's own errors are [its subclasses](reference/errors.md), in `kmini.protocol.errors` |
| `TimeoutError` | a call has not returned a minute after its `timeout_ms`; the text says where it waits |
| | compaction, retention and the clock may take half an hour |

A `KafkaError` has `code`, `kafka_name`, `retriable` and `message`. A method that waits for clients raises
`RuntimeError` on the thread of a running event loop if what it waits for is not there yet: a client on that loop could
not act.
"""

_FIXTURES = """
## Fixtures

| fixture | gives |
|---|---|
"""

_FUNCTIONS = [name for name in public.__all__ if isfunction(getattr(public, name))]

_HANDLES = ("Broker", "Cluster", *(name for name in public.__all__ if f"Async{name}" in public.__all__))
"""The classes whose methods call a broker; each has a twin whose methods are awaited."""

_STEPS = [
    name
    for name in public.__all__
    if not (name in _HANDLES or name in _FUNCTIONS or name.startswith("Async"))
    and not hasattr(getattr(public, name), "_fields")
    and not issubclass(getattr(public, name), Exception)
]
"""The classes of objects that methods return to be used further: a rule in the making, an expectation."""

_FIELD_TYPES = (ClosedClient, KeyPartition, Producer, TopicPartition)
"""The named tuples that are fields of results, which `kmini` does not export: they are met, and never made."""

_IN_FIELDS = """
## In fields

Fields of the results above have values of these types. They are named tuples and equal plain ones; `from kmini import`
does not give them. A `Header` is a tuple of a name and bytes or None.
"""

_RESULTS = [name for name in public.__all__ if hasattr(getattr(public, name), "_fields")]
"""The named tuples that methods return."""


def api() -> str:
    """Every public name, with what the docstrings say, and the errors that they name."""
    handles = [_handle(getattr(public, name)) for name in dict.fromkeys(_HANDLES)]
    functions = [_function(getattr(public, name)) for name in _FUNCTIONS]
    steps = [_handle(getattr(public, name)) for name in _STEPS]
    results = [_fields(getattr(public, name)) for name in _RESULTS]
    in_fields = [_fields(cls).replace("\n## ", "\n### ", 1) for cls in _FIELD_TYPES]
    errors_raised = [
        (f"`{name}`", f"`{_kind_of(error)}`", error.__doc__ or "")
        for name in public.__all__
        if isinstance(error := getattr(public, name), type) and issubclass(error, Exception)
    ]
    fixtures = [
        f"| `{name}` | {cell(one_line(cleandoc(function.__doc__ or '')))} |\n"
        for name, function in vars(pytest_plugin).items()
        if name.startswith(("kafka_", "async_kafka_"))
    ]
    classes = [*handles, *functions, *steps, *results, _IN_FIELDS, *in_fields]
    return (
        f"{NOTE}{_API}{''.join(classes)}\n## Errors\n\n"
        f"{table(('error', 'is a', 'meaning'), errors_raised)}{_FIXTURES}{''.join(fixtures)}"
    )


def _kind_of(error: type[Exception]) -> str:
    """What an error is, too: the name of an error in `kmini` or of Python."""
    public_errors = {getattr(public, name) for name in public.__all__}
    ours = (base for base in error.__mro__[1:] if base in public_errors or base.__module__ == "builtins")
    return next(ours).__name__


def _handle(cls: type) -> str:
    """A class with methods, and its twin whose methods are awaited, if it has one."""
    name = cls.__name__
    rows = []
    for member in sorted(one for one in dir(cls) if not one.startswith("_")):
        value = inspect.getattr_static(cls, member)
        text = _without_examples((value.fget if isinstance(value, property) else value).__doc__)
        call = member if isinstance(value, property) else member + _call(value)
        rows.append((f"`{call}`", one_line(text), ", ".join(f"`{one}`" for one in _errors_in(text))))
    made = f"`{name}{_call(cls.__init__)}`\n\n" if name in ("Broker", "Cluster") else ""  # type: ignore[misc]
    title = f"{name}, Async{name}" if name in _HANDLES else name
    methods = table(("", "what it does", "raises"), rows) if rows else ""
    return f"\n## {title}\n\n{made}{one_line(_without_examples(cls.__doc__))}\n" + (methods and f"\n{methods}")


def _function(function: Callable[..., object]) -> str:
    """A public function."""
    text = _without_examples(function.__doc__)
    return f"\n## {function.__name__}\n\n`{function.__name__}{_call(function)}`\n\n{one_line(text)}\n"


def _fields(cls: type) -> str:
    """A named tuple that methods return: its fields, with the docstrings below them."""
    (body,) = (
        node.body for node in ast.walk(ast.parse(dedent(inspect.getsource(cls)))) if isinstance(node, ast.ClassDef)
    )
    rows = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = str(after.value.value) if is_documented else ""  # type: ignore[union-attr]
            rows.append((f"`{node.target.id}`", f"`{ast.unparse(node.annotation)}`", one_line(text)))
    for name, method in vars(cls).items():
        if inspect.isfunction(method) and not name.startswith("_") and method.__qualname__.startswith(cls.__name__):
            text = _without_examples(method.__doc__)
            rows.append((f"`{name}{_call(method)}`", f"`{method.__annotations__['return']}`", one_line(text)))
    about = _without_examples(cls.__doc__)
    return f"\n## {cls.__name__}\n\n{about}\n\n{table(('field', 'type', ''), rows)}"


def _without_examples(docstring: str | None) -> str:
    """A docstring up to the examples at its end, which have no room in a table."""
    return cleandoc(docstring or "").partition("\n>>> ")[0].rstrip()


def _call(function: Callable[..., object]) -> str:
    """How a method is called, without the object and without types: those differ between versions of Python."""
    signature = inspect.signature(function)
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()][1:]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def _errors_in(text: str) -> list[str]:
    """The exceptions that a docstring names, each once."""
    known = {name for name in dir(errors) if isinstance(getattr(errors, name), type)} | {
        *dir(builtins),
        *public.__all__,
    }
    found = [name for name in re.findall(r"\b[A-Z]\w+", text) if name in known]
    spaces = (errors, builtins, public)
    classes = {name: next(getattr(space, name) for space in spaces if hasattr(space, name)) for name in found}
    return [name for name, cls in classes.items() if isinstance(cls, type) and issubclass(cls, Exception)]
