"""The picture on docs/audit.md, drawn by pipeline/audit/age_charts.py, shows the same as a run."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

SCRIPT = Path(__file__).resolve().parent.parent.parent / "docs" / "audit_picture.py"


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_picture", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit_picture"] = module
    spec.loader.exec_module(module)
    return module


def texts(path: Path) -> list[str]:
    """The texts in a picture. (Their places move with the clock between two calls.)"""
    return [text.strip() for text in ElementTree.parse(path).getroot().itertext() if text.strip()]


def test_the_picture_says_what_a_run_says(picture: ModuleType, tmp_path: Path) -> None:
    report = picture.run()
    picture.draw_chart("profiles", report.partitions, report.now_ms, str(tmp_path / "now.svg"))
    drawn, now = texts(picture.FILE), texts(tmp_path / "now.svg")
    ours = re.compile(r"partition|bound|compacted|dead|\d[hd]$")
    assert [text for text in drawn if ours.search(text)] == [text for text in now if ours.search(text)]
    assert any("past the bound" in text for text in drawn)
    assert [log.violations > 0 for log in report.partitions] == [False, False, False, True]
