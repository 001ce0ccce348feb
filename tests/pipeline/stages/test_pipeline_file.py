"""Pipelines declared in files, and `kmini pipeline` on them (cli/pipeline.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from kmini.cli import kmini
from kmini.pipeline.stages.pipeline_file import load_pipeline

DECLARED = """
from kmini.pipeline import Pipeline, Stage
import helper_of_this_test
{name} = Pipeline("p", [Stage("s", helper_of_this_test.same, reads="in", writes="out")], checkpoints="c")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "helper_of_this_test.py").write_text("def same(frame): return frame\n")
    return tmp_path / "file.py"


@pytest.mark.parametrize("name", ["pipeline", "anything"])
def test_a_file_declares_a_pipeline_whose_checkpoints_lie_beside_it(file: Path, name: str) -> None:
    file.write_text(DECLARED.format(name=name))
    loaded = load_pipeline(file)
    assert loaded.checkpoint_of(loaded.stages[0]) == str(file.parent / "c" / "s")


def test_functions_travel_with_the_modules_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor has neither the file nor what lies beside it: a module, or a package."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    (tmp_path / "module_beside.py").write_text("def loud(text): return text.upper()\n")
    (tmp_path / "package_beside").mkdir()
    (tmp_path / "package_beside" / "__init__.py").write_text("from .inner import ending\n")
    (tmp_path / "package_beside" / "inner.py").write_text("def ending(): return '!'\n")
    (tmp_path / "file.py").write_text(
        "from kmini.pipeline import Pipeline, Stage\n"
        "import module_beside, package_beside\n"
        "def shout(text): return module_beside.loud(text) + package_beside.ending()\n"
        "pipeline = Pipeline('p', [Stage('s', shout, reads='in', writes='out')])\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    (stage,) = load_pipeline(tmp_path / "file.py").stages
    sent = cloudpickle.dumps(stage.function)
    for name in ("module_beside", "package_beside", "package_beside.inner", "kmini_pipeline_file"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part != str(tmp_path)])
    assert cloudpickle.loads(sent)("hello") == "HELLO!"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "declares no pipelines"),
        (DECLARED.format(name="one") + DECLARED.format(name="two"), "declares 2 pipelines"),
        ("pipeline = 7", "pipeline is int"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("pipeline = (", "SyntaxError"),
        ("from kmini.pipeline import *\npipeline = Pipeline('p', [Stage('s', len, writes='x')])", "no source"),
    ],
)
def test_a_file_that_declares_none_is_refused_in_one_line(
    file: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "run", str(file)], prog_name="kmini")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert str(file) in said
    assert said.count("\n") == 1


LOGGING = """
import logging, sys
from kmini.cli import main
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages import pipeline
from kmini.pipeline.stages.running_pipeline import PipelineError

def fail(declared, **options):
    logging.getLogger("kmini.pipeline.x").info("begins")
    raise PipelineError("stage s failed")

pipeline.Running = fail
Admin.cluster_id = lambda self: "a cluster"
main()
"""


@pytest.mark.sockets
def test_log_lines_of_a_run_are_json_on_request(file: Path) -> None:
    pytest.importorskip("pyspark")
    file.write_text(DECLARED.format(name="one"))
    command = [sys.executable, "-c", LOGGING, "pipeline", "run", str(file), "--log-format", "json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    line, sentence = finished.stderr.splitlines()
    assert {**json.loads(line), "time": ""} == {
        "time": "",
        "level": "INFO",
        "logger": "kmini.pipeline.x",
        "message": "begins",
    }
    assert sentence == "kmini: stage s failed"


def test_a_file_is_shown_with_what_is_purged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    example = Path(__file__).resolve().parents[3] / "examples" / "sessions" / "pipeline.py"
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "show", str(example)], prog_name="kmini")
    assert ended.value.code == 0
    assert "sessions\tstage profiles,stage statistics" in capsys.readouterr().out


def test_a_run_without_a_broker_ends_before_spark_is_started(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    file.write_text(DECLARED.format(name="one"))
    monkeypatch.setattr("kmini.pipeline.stages.pipeline.Running", lambda *_, **__: pytest.fail("it starts"))
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "run", str(file), "-b", "127.0.0.1:1", "--timeout-ms", "300"], prog_name="kmini")
    assert ended.value.code == 1
    assert "no broker answers at 127.0.0.1:1" in capsys.readouterr().err


def test_without_the_extra_the_command_says_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("")
    monkeypatch.setattr("kmini.testkit.installed.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "run", str(file)], prog_name="kmini")
    assert ended.value.code == 2
    assert "pip install '.[spark]'" in capsys.readouterr().err
