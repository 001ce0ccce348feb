"""The mapped layout holds: the folders, the links for type checkers and the installed package are one thing."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parent.parent
ROOTS = {init.parent.name: f"kmini.{init.parent.name}" for init in ROOT.glob("*/__init__.py")} | {"embed": "kmini"}
"""Each folder of the repository that holds a package, and the package it is."""

RELATIVE = {"protocol", "storage", "client", "broker", "graduation", "pipeline"}
"""Those whose modules import each other by relative names."""


def packages_on_disk() -> dict[str, str]:
    """Every folder with an `__init__.py` below the roots, as {package: folder}."""
    found = {}
    for folder, package in ROOTS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            below = init.parent.relative_to(ROOT / folder).parts
            found[".".join((package, *below))] = init.parent.relative_to(ROOT).as_posix()
    return found


def test_the_client_tells_brokers_the_version_of_the_package() -> None:
    from kmini.client.connection import SOFTWARE_VERSION

    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == SOFTWARE_VERSION


def test_every_package_on_disk_is_mapped_to_its_folder() -> None:
    """setup.py finds the packages; what is installed for editing says what it found."""
    for package, folder in packages_on_disk().items():
        spec = importlib.util.find_spec(package)
        assert spec is not None, f"{package} is not installed: run make clean and make test again"
        assert spec.submodule_search_locations is not None
        assert [Path(place) for place in spec.submodule_search_locations] == [ROOT / folder]


def test_every_folder_with_modules_is_a_package() -> None:
    for folder in ROOTS:
        for module in (ROOT / folder).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), f"{module.parent} has no __init__.py"


def test_the_type_checkers_see_the_same_tree() -> None:
    links = {link.name: link for link in (ROOT / ".typing" / "kmini").iterdir()}
    expected = {path.name for path in (ROOT / "embed").iterdir() if path.suffix == ".py" or path.name == "py.typed"}
    expected |= ROOTS.keys() - {"embed"}
    assert links.keys() - {"__pycache__"} == expected, "run: make links"
    for name, link in links.items():
        if name != "__pycache__":
            assert link.is_symlink(), f"{name} is a copy"
            assert not link.readlink().is_absolute(), f"{name} points out of the repository"
            assert link.exists(), f"{name} points nowhere"


def test_no_folder_in_the_root_shadows_the_package() -> None:
    assert not (ROOT / "kmini").exists()


@pytest.mark.parametrize("folder", sorted(ROOTS))
def test_imports_of_ours_are_relative_inside_and_absolute_outside(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                is_ours = (node.module or "").partition(".")[0] in {"kmini", *ROOTS}
                assert not (node.level == 0 and is_ours and folder in RELATIVE), f"{path}:{node.lineno}"
                assert not (node.level > 0 and folder not in RELATIVE), f"{path}:{node.lineno}"


def test_the_only_package_below_tests_is_the_one_of_their_helpers() -> None:
    """A package would have its tests imported under names that those of other folders can have, too."""
    assert [*(ROOT / "tests").rglob("__init__.py")] == [ROOT / "tests" / "support" / "__init__.py"]


def files_of_the_repository() -> Iterator[tuple[Path, str]]:
    """Every file that a clone has, with its text: what tools write beside them is left out."""
    written = {".venv", ".git", ".peers", ".kmini-data", "artifacts", "build", "dist", "spark-warehouse"}
    written |= {"kmini.egg-info", "__pycache__"}
    written |= {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache", ".typing"}
    for path in ROOT.rglob("*"):
        if not written & {*path.relative_to(ROOT).parts} and path.is_file() and path.suffix not in (".so", ".pyd"):
            yield path, path.read_text(encoding="utf-8", errors="replace")


def test_no_file_names_this_machine_or_a_registry() -> None:
    """The repository finds what it needs by package coordinates, wherever it is cloned."""
    forbidden = ["/" + "work" + "/", "/" + "root" + "/", "pypi" + ".org", "repo1" + ".maven", "repo" + ".maven"]
    for path, text in files_of_the_repository():
        assert not [words for words in forbidden if words in text], path


FROM_AN_INDEX = re.compile(r"""pip3?[ ]install(?:[ ](?!['"]?\.)[^\s`]+)*?[ ]['"]?kmini(?!-\S*\.whl)""")
"""A command that has pip look for a package of our name, in place of a folder (`.`) or the file of a wheel."""


def test_no_file_installs_kmini_from_an_index() -> None:
    """No package index has kmini, so pages and messages name a clone or a wheel; only pyproject.toml names the package
    in what an extra needs."""
    by_name = "kmini" + "["
    for path, text in files_of_the_repository():
        assert not FROM_AN_INDEX.findall(text), path
        assert by_name not in text or path == ROOT / "pyproject.toml", path


def test_a_command_that_asks_an_index_is_recognized() -> None:
    for asks in ("kmini", "'kmini>=0.1'", "-q kmini", "pytest kmini", '"kmini;python_version>0"'):
        assert FROM_AN_INDEX.search(f"pip install {asks}"), asks
    for names in (".", "'.[spark]'", "dist/kmini-*.whl", "kmini-0.1.0-py3-none-any.whl", "kafka-python"):
        assert not FROM_AN_INDEX.search(f"`pip install {names}` brings kmini"), names


def test_every_command_that_needs_an_extra_names_one_that_exists() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    calls = [
        call
        for folder in ROOTS
        for path in (ROOT / folder).rglob("*.py")
        for call in re.findall(r'need_extra\("(\w+)"', path.read_text(encoding="utf-8"))
    ]
    assert calls
    assert {*calls} <= extras.keys()
