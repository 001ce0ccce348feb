"""The prose of the repository names modules that exist: docstrings, comments and pages are read for such names."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = {"protocol", "storage", "client", "broker", "graduation", "pipeline"}
"""Folders of the repository that are packages below `kmini`; embed/ is `kmini` itself."""
SOURCES = sorted(PACKAGES | {"embed"})
FOLDERS = [*SOURCES, "tests", "bench", "docs", "examples", "docker", "config"]

FILE = re.compile(r"(?<![\w/*.<{-])(?:[\w*-]+/)*[\w*-]+\.pyi?\b")
FOLDER = re.compile(rf"(?<![\w/.<-])(?:{'|'.join(FOLDERS)})(?:/(?:[\w.*-]|<\w+>)+)+")
DOTTED = re.compile(r"(?<![\w./])(?:kmini|protocol|storage|graduation)(?:\.(?!(?:md|sh)\b)\w+)+")
IMPORT = re.compile(r"\bfrom (kmini(?:\.\w+)*) import (\w+)")
"""Names of files, of paths below our folders, and of modules as Python imports them. A name that begins with `broker`,
`client` or `pipeline` alone may be a variable of an example, or a setting."""

NOT_OURS = {"floor.py", "helper_of_this_test.py"}
"""A server that the reader of a page brings, and a file that a test writes."""


class Prose(NamedTuple):
    """A docstring, a comment or a page, and where it begins."""

    path: Path
    line: int
    text: str

    def at(self, found: re.Match[str]) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line + self.text.count(chr(10), 0, found.start())}: {found[0]}"


def prose_of(path: Path) -> Iterator[Prose]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield Prose(path, 1, text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Prose(path, node.lineno, node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(path, token.start[0], token.string)


def files(*patterns: str) -> list[Path]:
    found = {path for folder in FOLDERS for pattern in patterns for path in (ROOT / folder).rglob(pattern)}
    return sorted(path for path in found if "__pycache__" not in path.parts)


@pytest.fixture(scope="module")
def prose() -> list[Prose]:
    """All of it but the changelog, which tells of files that are gone."""
    pages = [ROOT / "README.md", ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    return [part for path in [*files("*.py", "*.md"), *pages] for part in prose_of(path)]


def test_the_files_that_are_named_exist(prose: list[Prose]) -> None:
    """By its name alone, or by the end of its path: `group_coordinator.py`, `groups/classic/group_states.py`."""
    existing = [path.relative_to(ROOT) for path in [*files("*.py"), ROOT / "setup.py"]]
    known: dict[str, bool] = dict.fromkeys(NOT_OURS, True)
    missing = []
    for part in prose:
        for found in FILE.finditer(part.text):
            if found[0] not in known:
                known[found[0]] = any(path.match(found[0]) for path in existing)
            if not known[found[0]]:
                missing.append(part.at(found))
    assert missing == []


def test_the_paths_that_are_named_exist(prose: list[Prose]) -> None:
    missing = []
    for part in prose:
        for found in FOLDER.finditer(part.text):
            path = re.sub(r"<\w+>", "*", found[0].rstrip("."))  # "test_<api>.py" is any of them
            if not (list(ROOT.glob(path)) or list((ROOT / "tests").glob(path))):
                missing.append(part.at(found))
    assert missing == []


def is_ours(dotted: str) -> bool:
    """Whether this names a module of ours, and not a setting, a logger or a file: `kmini.db`."""
    first, *rest = dotted.split(".")
    return first != "kmini" or (ROOT / rest[0]).is_dir() or (ROOT / "embed" / f"{rest[0]}.py").exists()


def exists(dotted: str) -> bool:
    """Whether this is a module, or the name of something in one. Modules are read and not imported."""
    parts = dotted.removeprefix("kmini.").split(".")
    folder = ROOT / parts.pop(0) if parts[0] in PACKAGES else ROOT / "embed"
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    if not parts:
        return True
    module = folder / f"{parts[0]}.py"
    parts = parts[1:] if module.exists() else parts
    source = module if module.exists() else folder / "__init__.py"
    return not parts or re.search(rf"\b{parts[0]}\b", source.read_text(encoding="utf-8")) is not None


def test_the_modules_that_are_named_exist(prose: list[Prose]) -> None:
    missing = []
    for part in prose:
        for found in DOTTED.finditer(part.text):
            if is_ours(found[0]) and not exists(found[0]):
                missing.append(part.at(found))
        for found in IMPORT.finditer(part.text):
            if not exists(found[1]) or not exists(f"{found[1]}.{found[2]}"):
                missing.append(part.at(found))
    assert missing == []


@pytest.mark.parametrize("folder", SOURCES)
def test_the_modules_that_a_package_lists_are_in_it(folder: str) -> None:
    """Each line of a package's docstring that begins with "- `batch`:" names a module of that package."""
    for path in (ROOT / folder).rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for listed in re.findall(r"^- ((?:`\w+`(?:, )?)+)", text, re.MULTILINE):
            for name in re.findall(r"`(\w+)`", listed):
                assert (path.parent / f"{name}.py").exists() or (path.parent / name).is_dir(), f"{path}: {name}"


def test_a_name_that_is_stale_is_found() -> None:
    for name in ("kmini.pipeline.gone", "kmini.protocol.records.gone", "protocol.gone", "kmini.pipeline.gone.Class"):
        assert is_ours(name)
        assert not exists(name), name
    for name in (
        "kmini.protocol.records.kernels.sieve",
        "kmini.Broker",
        "storage.cleaner.clean",
        "kmini.cli.extras.need_extra",
    ):
        assert exists(name), name
