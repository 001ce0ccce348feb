"""docs/performance.md says and shows what bench/curves.json holds: `make curves` writes all of them."""

from __future__ import annotations

import copy
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LEAST = {
    "connections": (1, 10_000),
    "partitions": (1, 10_000),
    "groups": (1, 2_000),
    "consumers": (1, 1_000),
    "logs": (1, 16),
}
"""The first and the last point of each curve."""
FIGURE = re.compile(r"\d(?:[\d,.–]*\d)?\s?(?:ms|µs|s|[KMG]i?B(?:/s)?|%)(?!\w)")
SETTINGS = {"500 ms", "4 ms", "20 GiB", "256 KiB", "100 B"}
"""Quantities in the page's own text that are chosen, and not measured."""


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_performance_page", ROOT / "docs" / "performance_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_file_holds(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.placed(text, page.read()) == text, "run: python docs/performance_page.py"


def test_the_page_has_each_curve_once_and_no_figure_beside_them(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert [match[2] for match in page.BLOCK.finditer(text)] == list(page.CURVES)
    assert set(FIGURE.findall(page.BLOCK.sub("", text))) <= SETTINGS


def test_the_curves_are_as_long_as_they_must_be(page: ModuleType) -> None:
    found = page.read()
    assert {name: (one["points"][0]["count"], one["points"][-1]["count"]) for name, one in found.items()} == LEAST
    for name, one in found.items():
        for point in one["points"]:
            missing = {series.key for series in page.CURVES[name]} - point.keys()
            assert missing <= {"working_ack_p50_us"}, (name, point["count"])


def test_another_run_changes_every_figure_and_no_other_text(page: ModuleType) -> None:
    text, other = page.PAGE.read_text(encoding="utf-8"), copy.deepcopy(page.read())
    for one in other.values():
        for point in one["points"]:
            point.update({key: 7_777 * value for key, value in point.items() if key != "count"})
    changed = page.placed(text, other)
    for name, one in other.items():
        for line in page.table(name, one["points"]):
            assert line in changed
    assert page.BLOCK.sub("", changed) == page.BLOCK.sub("", text)
    assert page.placed(changed, page.read()) == text


def test_the_pictures_are_drawn_from_the_file(page: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, one in page.read().items():
        page.draw(name, one["points"], tmp_path / "drawn.svg")
        drawn, committed = (
            [path.get("d") for path in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}path")]
            for file in (tmp_path / "drawn.svg", page.picture_file(name))
        )
        assert drawn == committed, f"run: python docs/performance_page.py ({name})"
        lines = sum(bool(series.panel) for series in page.CURVES[name])
        assert len([path for path in drawn if path and path.count("L") == len(one["points"]) - 1]) >= lines
