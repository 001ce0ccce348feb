"""The picture of a log: drawn from a run, and from one of this program."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_picture", ROOT / "docs" / "compaction_picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_what_a_run_draws_now(picture: ModuleType) -> None:
    drawn = picture.draw(picture.run())
    assert picture.FILE.read_text(encoding="utf-8") == drawn, "run: python docs/compaction_picture.py"


def test_it_is_a_picture_and_has_what_it_explains(picture: ModuleType) -> None:
    text = " ".join(ElementTree.parse(picture.FILE).getroot().itertext())
    assert all(meaning in text for meaning in picture.MEANINGS.values())
    assert "the bound" in text
    assert "the horizon" in text
    rows = [kind for row in picture.run() for _, _, kind in row.segments]
    assert set(rows) == set(picture.COLORS)
