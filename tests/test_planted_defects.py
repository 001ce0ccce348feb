"""The table of `.ci/planted_defects.py` fits this tree: each defect has its one place, and its tests are there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

TREE = Path(__file__).resolve().parent.parent


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("planted_defects", TREE / ".ci" / "planted_defects.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()


@pytest.mark.parametrize("defect", TOOL.DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_has_its_place_and_its_tests(defect: Any) -> None:
    assert TOOL.place_of(defect, TREE).path.is_file()
    assert [test for test in defect.tests if not (TREE / test).is_file()] == []


def test_planting_changes_the_one_place(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    module = tmp_path / "storage" / "retention.py"
    module.write_text("def is_over(size):\n    return (\n        size > 1\n    )\n", encoding="utf-8")
    defect = TOOL.DEFECTS[0]._replace(code="return ( size > 1 )", planted="return size >= 1")
    assert TOOL.plant(defect, tmp_path) == (module, "def is_over(size):\n    return (\n        size > 1\n    )\n")
    assert module.read_text(encoding="utf-8") == "def is_over(size):\n    return size >= 1\n"


@pytest.mark.parametrize("names", [(), ("retention.py", "other.py")])
def test_a_defect_without_one_place_is_refused_by_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "broker").mkdir()
    for name in names:
        (tmp_path / "broker" / name).write_text("size > 1\n", encoding="utf-8")
    defect = TOOL.DEFECTS[0]._replace(code="size > 1", file_name="segment.py")
    with pytest.raises(TOOL.CannotPlant, match=defect.name):
        TOOL.place_of(defect, tmp_path)


def test_of_two_places_the_one_in_the_named_module_counts(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    for name in ("retention.py", "other.py"):
        (tmp_path / "broker" / name).write_text("size > 1\n", encoding="utf-8")
    defect = TOOL.DEFECTS[0]._replace(code="size > 1", file_name="retention.py")
    assert TOOL.place_of(defect, tmp_path).path.name == "retention.py"
