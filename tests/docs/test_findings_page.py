"""The page of findings: each finding of doctor has a test that plants it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kmini.doctor.findings import FINDINGS, LEVELS, Kind

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.syspath_prepend(str(DOCS))
    spec = importlib.util.spec_from_file_location("findings_page", DOCS / "findings_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("markdown_page", None)
    found: dict[str, list[str]] = module.tests_of_findings()
    return found


def test_every_finding_has_a_test_that_plants_it(tests: dict[str, list[str]]) -> None:
    assert {*FINDINGS} - {*tests} == set()


@pytest.mark.parametrize("kind", FINDINGS.values(), ids=[*FINDINGS])
def test_every_finding_has_a_level_and_a_sentence(kind: Kind) -> None:
    assert kind.level in LEVELS
    assert kind.meaning.endswith(".")
