"""The programs of the pages run, and print the output that the page shows."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from kmini import Broker
from kmini.registry.schema_reading import SchemaReader
from support import apache_kafka
from support.control_api import control_api
from support.registry_api import RegistryApi

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "docker" / "README.md"])
ADDRESS = "localhost:9092"
"""Stands on the pages for a broker."""

CONTROL = "http://127.0.0.1:8090"
"""Stands on the pages for a control server."""

REGISTRY = "http://localhost:8081"
"""Stands on the pages for a schema registry."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w/]+\.(?:py|ini))\n")
"""The first line of a block that says in which file it stands."""


class Program(NamedTuple):
    """A fenced block of a page."""

    page: Path
    number: int
    language: str
    text: str
    output: str | None
    """The output in the block after it, if there is one."""

    def __str__(self) -> str:
        return f"{self.page.stem}-{self.number}"


def programs(language: str) -> dict[Path, list[Program]]:
    """The blocks in a language, by page."""
    found: dict[Path, list[Program]] = {}
    for page in PAGES:
        for number, block in enumerate(FENCE.finditer(page.read_text(encoding="utf-8"))):
            if block[1] == language:
                found.setdefault(page, []).append(Program(page, number, *block.groups()))
    return found


def by_name(page: object) -> str:
    assert isinstance(page, Path)
    return page.relative_to(ROOT).with_suffix("").as_posix()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    """The address of a control server."""
    with control_api(topics={}) as server:
        yield server.url


def check(program: Program, command: list[str], directory: Path, **environment: str) -> None:
    finished = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, f"{program}:\n{finished.stdout}\n{finished.stderr}"
    if program.output is not None:
        assert finished.stdout == program.output, program


@pytest.mark.parametrize("page", programs("python"), ids=by_name)
def test_the_python_programs_of_a_page_run(page: Path, broker: Broker, control: str, tmp_path: Path) -> None:
    """Programs run one after the other, against one broker; then the tests, those of a directory as one suite."""
    suites: dict[Path, list[str]] = {}
    ini_files = [program for program in programs("ini").get(page, []) if NAMED.match(program.text)]
    for program in [*ini_files, *programs("python")[page]]:
        for client in re.findall("^from (kafka|aiokafka|confluent_kafka)", program.text, re.MULTILINE):
            pytest.importorskip(client)
        named = NAMED.match(program.text)
        file = tmp_path / (named[1] if named else f"test_{program.number}.py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(program.text.replace(ADDRESS, broker.bootstrap_servers).replace(CONTROL, control))
        if "def test_" in program.text:
            suites.setdefault(file.parent, []).append(file.name)
        elif program.language == "python":
            check(program, [sys.executable, str(file)], tmp_path)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error::kmini.KafkaTestWarning"]
    for directory, names in suites.items():
        assert len({*names}) == len(names), f"{page} has two tests of the same name"
        suite = Program(page, 0, "python", "", None)
        check(suite, [sys.executable, "-m", "pytest", *options, *names], directory)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcats_commands_run(broker: Broker, tmp_path: Path) -> None:
    for program in programs("sh")[ROOT / "docs" / "clients" / "kcat.md"]:
        check(program, ["sh", "-ec", program.text.replace(ADDRESS, broker.bootstrap_servers)], tmp_path)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl or jq is not installed")
def test_the_session_with_the_schema_registry_runs(tmp_path: Path) -> None:
    api = RegistryApi(str(tmp_path)).start(SchemaReader())
    try:
        for program in programs("sh")[ROOT / "docs" / "schema-registry.md"]:
            if program.output is not None:
                check(program, ["sh", "-ec", program.text.replace(REGISTRY, api.url)], tmp_path)
    finally:
        api.end()


def test_the_java_program_runs(need_kafka: None, broker: Broker, tmp_path: Path) -> None:
    (program,) = programs("java")[ROOT / "docs" / "clients" / "java.md"]
    file = tmp_path / "Orders.java"
    file.write_text(program.text.replace(ADDRESS, broker.bootstrap_servers))
    check(program, [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), str(file)], tmp_path)


def third_party_imports(module: Path) -> set[str]:
    """The packages that importing this module needs, of those that are neither Python's nor ours."""
    needed = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            needed |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            needed.add((node.module or "").partition(".")[0])
    return needed - sys.stdlib_module_names


def test_the_page_of_audits_names_all_that_an_audit_needs_installed() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    needs = page.partition("## What it needs")[2].partition("\n## ")[0]
    requirements = metadata.requires("kmini") or []
    extra = {re.match(r"[\w-]+", line)[0] for line in requirements if line.endswith('extra == "audit"')}  # type: ignore[index]
    assert extra == {"pyarrow", "numpy", "matplotlib"}
    assert [package for package in extra if f"`{package}`" not in needs] == []
    assert "pip install '.[audit]'" in needs
    modules = [*(ROOT / "pipeline" / "audit").glob("*.py"), *(ROOT / "pipeline" / "logs").glob("*.py")]
    imported = set().union(*map(third_party_imports, modules))
    assert imported - {"pyspark"} == {"pyarrow", "numpy"}, "cli/audit.py asks for these, and the page names them"


MEASURED = re.compile("<!-- make bench writes from here -->\n(.*?)<!-- to here -->\n", re.DOTALL)
FIGURE = re.compile(r"\d(?:[\d,.–]*\d)?\s?(?:ms|µs|s|seconds?|[KMG]i?B(?:/s)?|thousand/s|%)(?!\w)")
"""A number with the unit of something that is measured."""


def test_the_figures_of_readme_are_those_of_the_committed_run() -> None:
    """`make bench` writes both."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    (measured,) = MEASURED.findall(readme)
    assert results.startswith(f"# Results\n\n{measured}")
    assert "| memory when idle |" in measured
    prose = re.sub(r"^```.*?^```$", "", MEASURED.sub("", readme), flags=re.MULTILINE | re.DOTALL)
    assert FIGURE.findall(prose) == []


def test_make_bench_replaces_the_tables_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import measured

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    changed = measured.placed(readme, "| | kmini |\n")
    assert MEASURED.findall(changed) == ["| | kmini |\n"]
    assert MEASURED.sub("", changed) == MEASURED.sub("", readme)
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8").removeprefix("# Results\n\n")
    assert measured.placed(readme, results) == readme


def test_a_figure_is_recognized() -> None:
    for text in ("100–150 ms", "4.7 KiB each", "in 0.3 s.", "1,095 MB/s", "2–4 % of", "286 thousand/s"):
        assert FIGURE.search(text), text
    for text in ("Kafka 4.3.1", "KIP-107", "orders:3", "of 0.9 too", "acks 0/1/all"):
        assert not FIGURE.search(text), text
