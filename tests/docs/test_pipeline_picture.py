"""The picture of a topic between two stages: drawn from the run beside it, which says what the page says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_pipeline_picture", ROOT / "docs" / "pipeline_picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_purged_stays_bounded_while_what_is_not_grows(picture: ModuleType) -> None:
    runs = picture.read()
    for samples in runs.values():
        assert samples[-1].second > picture.SECONDS - 5
    later = [one for one in runs["purged"] if one.second > picture.SECONDS / 3]
    assert max(one.on_disk_mib for one in later) < later[-1].written_mib / 3
    kept = runs["not purged"][-1]
    assert kept.on_disk_mib > kept.written_mib


def test_the_picture_is_that_of_this_run(picture: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed = picture.FILE.read_text(encoding="utf-8")
    monkeypatch.setattr(picture, "FILE", tmp_path / "drawn.svg")
    picture.draw(picture.read())
    drawn = (tmp_path / "drawn.svg").read_text(encoding="utf-8")
    curves = [line for line in drawn.splitlines() if line.startswith('    <path d="M')]
    assert curves
    assert all(line in committed for line in curves if "clip-path" in line)
