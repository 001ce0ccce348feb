"""examples/control: the tests in shell, Java, Node and Go pass against `kmini serve --http`; changed ones fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import apache_kafka
from support.server_process import PORT, ServerProcess
from support.until import until

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples" / "control"
NODE_MODULES = ROOT / ".peers" / "kafkajs" / "node_modules"
TOKEN = "of-the-tests"
FETCH = "`make control-clients` fetches them"


class Language(NamedTuple):
    """How the tests of a language are run."""

    name: str
    file: str
    """With both tests."""
    command: list[str]
    """Run in the folder of the file."""
    why_unavailable: Callable[[], str | None]
    environment: dict[str, str]
    passed: str
    """What is printed when both tests have passed."""
    fence: str
    """The language on the page."""

    @property
    def path(self) -> Path:
        return EXAMPLES / self.name / self.file


def no_shell() -> str | None:
    missing = [name for name in ("curl", "jq", "kcat") if shutil.which(name) is None]
    return f"{', '.join(missing)} is not on the path" if missing else None


def no_node() -> str | None:
    if shutil.which("node") is None:
        return "no node on the path"
    return None if (NODE_MODULES / "kafkajs").is_dir() else f"kafkajs is not in {NODE_MODULES} ({FETCH})"


OFFLINE = {"GOPROXY": "off", "GOFLAGS": "-mod=readonly"}


def no_go() -> str | None:
    if shutil.which("go") is None:
        return "no go on the path"
    listed = subprocess.run(
        ["go", "list", "-test", "-deps", "./..."],
        cwd=EXAMPLES / "go",
        env={**os.environ, **OFFLINE},
        capture_output=True,
        check=False,
    )
    return f"the modules of examples/control/go are missing ({FETCH})" if listed.returncode else None


JAVA = [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), "OrdersTest.java"]

LANGUAGES = [
    Language("shell", "orders.sh", ["sh", "orders.sh"], no_shell, {}, r"2 passed\n", "sh"),
    Language("java", "OrdersTest.java", JAVA, apache_kafka.why_unavailable, {}, r"2 passed\n", "java"),
    Language(
        "node",
        "orders.test.js",
        ["node", "--test", "--test-reporter=tap"],
        no_node,
        {"NODE_PATH": str(NODE_MODULES)},
        r"# pass 2\n",
        "js",
    ),
    Language("go", "orders_test.go", ["go", "test", "-count=1", "-v"], no_go, OFFLINE, r"PASS\n", "go"),
]
BY_NAME = {language.name: language for language in LANGUAGES}


class Run(NamedTuple):
    """How a run of a language's tests has ended."""

    code: int
    output: str


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where `kmini serve --http` listens, and the token that it wants, as the examples read them."""
    directory = tmp_path_factory.mktemp("control")
    port_file = directory / "http-port"
    command = [
        sys.executable,
        "-m",
        "kmini",
        "serve",
        "--port",
        PORT,
        "--http",
        "0",
        "--http-port-file",
        str(port_file),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KMINI_HTTP_TOKEN", TOKEN)
        server = ServerProcess(command, directory / "log")
    until(port_file.exists, "the control API is not served")
    yield {
        "KAFKA": server.bootstrap_servers,
        "KMINI": f"http://127.0.0.1:{int(port_file.read_text())}",
        "KMINI_HTTP_TOKEN": TOKEN,
    }
    server.stop()


@pytest.fixture
def run(addresses: dict[str, str]) -> Callable[..., Run]:
    """Run the tests of a language in a folder, or skip where the language cannot be had."""

    def invoke(language: Language, folder: Path) -> Run:
        if reason := language.why_unavailable():
            pytest.skip(reason)
        finished = subprocess.run(
            language.command,
            cwd=folder,
            env={**os.environ, **addresses, **language.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        return Run(finished.returncode, finished.stdout)

    return invoke


@pytest.mark.parametrize("language", LANGUAGES, ids=BY_NAME)
def test_the_tests_of_a_language_pass(language: Language, run: Callable[..., Run]) -> None:
    finished = run(language, language.path.parent)
    assert finished.code == 0, finished.output
    assert re.search(language.passed, finished.output), finished.output


MET_ONCE_MORE = (r'(times"?: )2\b', r"\g<1>3")
ONLY_AN_HOUR = ('"7d"', '"1h"')


class Break(NamedTuple):
    """Changes to the tests of a language, and what their run says."""

    language: str
    changes: tuple[tuple[str, str], ...]
    said: tuple[str, ...]


BREAKS = [
    Break("shell", (MET_ONCE_MORE,), ("wanted 2, found 3", "moved: acted 3 times")),
    Break("shell", (ONLY_AN_HOUR,), ("wanted order 2, found order 1", "moved ahead by 1h")),
    Break("java", (ONLY_AN_HOUR,), ("AssertionError: the first order is still there", "moved ahead by 1h")),
    Break("node", (MET_ONCE_MORE, ONLY_AN_HOUR), ("actual: 3", "actual: 'order 1'", "# fail 2")),
    Break("go", (MET_ONCE_MORE, ONLY_AN_HOUR), ("the rule was met 3 times, not 2", 'the first order is "order 1"')),
]


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda breaks: f"{breaks.language}-{len(breaks.changes)}")
def test_they_fail_when_the_broker_does_something_else(breaks: Break, run: Callable[..., Run], tmp_path: Path) -> None:
    language = BY_NAME[breaks.language]
    folder = Path(shutil.copytree(language.path.parent, tmp_path / language.name))
    text = language.path.read_text()
    for right, wrong in breaks.changes:
        text, count = re.subn(right, wrong, text)
        assert count == 1
    (folder / language.file).write_text(text)
    finished = run(language, folder)
    assert finished.code != 0, finished.output
    assert [said for said in breaks.said if said not in finished.output] == [], finished.output


@pytest.mark.parametrize("language", LANGUAGES, ids=BY_NAME)
def test_the_page_shows_the_program_as_it_runs(language: Language) -> None:
    page = (ROOT / "docs" / "control-api.md").read_text(encoding="utf-8")
    assert f"```{language.fence}\n{language.path.read_text(encoding='utf-8')}```\n" in page
