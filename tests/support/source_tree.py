"""The source tree of kmini, read without importing it: modules by name, their sizes, functions and imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("protocol", "storage", "client", "broker", "graduation", "pipeline", "embed")
"""`embed/` is the package `kmini` itself; each other folder is the package `kmini.<folder>`."""

Graph = dict[str, set[str]]


class Module(NamedTuple):
    """One source file. `path` is relative to the repository, as in "broker/purgatory.py"."""

    name: str
    path: str
    is_package: bool

    @property
    def lines(self) -> int:
        return len(text(self.path).splitlines())


class Function(NamedTuple):
    """`name` is "broker/purgatory.py: Purgatory.add"; `lines` counts from `def` to the last line of the body."""

    name: str
    lines: int


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def syntax(path: str) -> ast.Module:
    return ast.parse(text(path))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of kmini, packages included, in the order of their paths."""
    found = []
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            parts = path.removesuffix(".py").removeprefix("embed/").split("/")
            is_package = parts[-1] == "__init__"
            found.append(Module(".".join(["kmini", *(parts[:-1] if is_package else parts)]), path, is_package))
    return tuple(found)


def functions() -> Iterator[Function]:
    """Every function and method of kmini, nested ones included."""
    for module in modules():
        yield from _functions(syntax(module.path), f"{module.path}: ")


def _functions(parent: ast.AST, prefix: str) -> Iterator[Function]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield Function(prefix + node.name, node.end_lineno - node.lineno + 1)
        is_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from _functions(node, f"{prefix}{node.name}." if is_scope else prefix)


def imports() -> Graph:
    """The modules that each module imports, at its top, in its functions, and for annotations only."""
    names = {module.name for module in modules()}
    graph: Graph = {}
    for module in modules():
        graph[module.name] = imported_by(module, syntax(module.path), names) - {module.name}
    return graph


def imported_by(module: Module, source: ast.Module, names: Set[str]) -> set[str]:
    """Those of `names` that the source of a module imports anywhere."""
    return {name for node in ast.walk(source) for name in _imported(node, module, names)}


def _imported(node: ast.AST, module: Module, names: Set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            name = alias.name
            while name and name not in names:
                name = name.rpartition(".")[0]
            if name:
                yield name
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = module.name.split(".")
            above = node.level - 1 if module.is_package else node.level
            base = ".".join([*parts[: len(parts) - above], *filter(None, [node.module])])
        for alias in node.names:
            if f"{base}.{alias.name}" in names:
                yield f"{base}.{alias.name}"
            elif base in names:
                yield base


def cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The groups of modules of which each one reaches each other one by imports, the largest first."""
    backwards: Graph = {name: set() for name in graph}
    for name, imported in graph.items():
        for each in imported:
            backwards[each].add(name)
    found: list[set[str]] = []
    left = set(graph)
    while left:
        name = min(left)
        group = _reached(name, graph) & _reached(name, backwards)
        left -= group
        if len(group) > 1:
            found.append(group)
    return sorted(found, key=len, reverse=True)


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    reached, due = {start}, [start]
    while due:
        new = graph[due.pop()] - reached
        reached |= new
        due += new
    return reached
