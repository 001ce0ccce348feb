"""What a linter of Python does not see: `make lint` runs this. Prints a line for each finding, and then exits with 1.

- Import cycles: at most nine modules import each other in a circle.
- Names in prose: files, paths and modules that docstrings, comments and pages name exist, and the links of pages lead
  somewhere.
- Pages: the tests that docs/testing/fault-coverage.md names exist, each finding of doctor has a test that plants it,
  and docs/performance.md shows what bench/curves.json holds.
"""

from __future__ import annotations

import ast
import fnmatch
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = tuple(sorted(init.parent.name for init in ROOT.glob("*/__init__.py")))
PACKAGES = tuple(name for name in SOURCES if name != "embed")
"""Folders that are packages below `kmini`; embed/ is `kmini` itself."""
FOLDERS = (*SOURCES, "tests", "bench", "docs", "examples", "docker", "config")

Findings = Iterator[str]
Graph = dict[str, set[str]]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def syntax_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def files(*patterns: str, below: tuple[str, ...] = FOLDERS) -> list[Path]:
    found = {path for folder in below for pattern in patterns for path in (ROOT / folder).rglob(pattern)}
    return sorted(path for path in found if "__pycache__" not in path.parts)


def at(path: Path, line: int, sentence: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {sentence}"


# ----------------------------------------------------------------------------------------------------- import cycles

LARGEST_CYCLE = 9
"""Modules that may import each other in a circle; imports in functions and for annotations count."""


def large_cycles() -> Findings:
    paths = {module_name(path): path for path in files("*.py", below=SOURCES)}
    graph = {name: imported_by(name, path, paths.keys()) - {name} for name, path in paths.items()}
    for group in cycles(graph):
        if len(group) > LARGEST_CYCLE:
            names = sorted(group)
            yield at(paths[names[0]], 1, f"{len(group)} modules import each other: {', '.join(names[:12])}")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").as_posix().removeprefix("embed/").split("/")
    return ".".join(["kmini", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def imported_by(module: str, path: Path, names: Set[str]) -> set[str]:
    """Those of `names` that a module imports anywhere."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(syntax_of(path)):
        if isinstance(node, ast.Import):
            found |= {nearest(alias.name, names) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in names else base)
    return found & names


def nearest(name: str, names: Set[str]) -> str:
    """The module of which `import name` needs the file: itself, or the one that has it."""
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name


def cycles(graph: Graph) -> Iterator[set[str]]:
    """The groups of modules of which each one reaches each other one by imports."""
    backwards: Graph = {name: set() for name in graph}
    for name, imported in graph.items():
        for one in imported:
            backwards[one].add(name)
    left = set(graph)
    while left:
        name = min(left)
        group = reached(name, graph) & reached(name, backwards)
        left -= group
        if len(group) > 1:
            yield group


def reached(start: str, graph: Graph) -> set[str]:
    found, due = {start}, [start]
    while due:
        new = graph[due.pop()] - found
        found |= new
        due += new
    return found


# ---------------------------------------------------------------------------------------------------- names in prose

FILE = re.compile(r"(?<![\w/*.<{-])(?:[\w*-]+/)*[\w*-]+\.pyi?\b")
FOLDER = re.compile(rf"(?<![\w/.<-])(?:{'|'.join(FOLDERS)})(?:/(?:[\w.*-]|<\w+>)+)+")
DOTTED = re.compile(r"(?<![\w./])(?:kmini|protocol|storage|graduation)(?:\.(?!(?:md|sh)\b)\w+)+")
IMPORT = re.compile(r"\bfrom (kmini(?:\.\w+)*) import (\w+)")
"""Names of files, of paths below our folders, and of modules as Python imports them. A name that begins with `broker`,
`client` or `pipeline` alone may be a variable of an example, or a setting."""

NOT_OURS = {"floor.py", "helper_of_this_test.py"}
"""A server that the reader of a page brings, and a file that a test writes."""

LINK = re.compile(r"\]\((?!https?://)([^)#]*)(#[^)]*)?\)")


def stale_names() -> Findings:
    """The changelog tells of files that are gone, and is left out."""
    pages = [ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md", "pyproject.toml")]
    for path in [*files("*.py", "*.md"), *pages]:
        if not any(stale_in(text_of(path))):
            continue  # spares reading the docstrings and comments of most files
        for line, prose in prose_of(path):
            for position, name in stale_in(prose):
                yield at(path, line + prose.count("\n", 0, position), f"there is no {name}")


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, or a page, each with its first line."""
    text = text_of(path)
    if path.suffix != ".py":
        yield 1, text
        return
    for node in ast.walk(syntax_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def stale_in(prose: str) -> Iterator[tuple[int, str]]:
    """The names of what does not exist, each with its place in the text."""
    for pattern, is_there in ((FILE, file_exists), (FOLDER, path_exists), (DOTTED, module_exists)):
        for found in pattern.finditer(prose):
            if not is_there(found[0]):
                yield found.start(), found[0]
    for found in IMPORT.finditer(prose):
        if not (module_exists(found[1]) and module_exists(f"{found[1]}.{found[2]}")):
            yield found.start(), found[0]


@cache
def file_exists(name: str) -> bool:
    """By its name alone, or by the end of its path: `group_coordinator.py`, `groups/classic/group_states.py`."""
    return name in NOT_OURS or name in known_endings() or ("*" in name and bool(fnmatch.filter(known_endings(), name)))


@cache
def known_endings() -> set[str]:
    paths = [path.relative_to(ROOT).parts for path in [*files("*.py"), ROOT / "setup.py"]]
    return {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


@cache
def path_exists(name: str) -> bool:
    pattern = re.sub(r"<\w+>", "*", name.rstrip("."))  # "test_<api>.py" is any of them
    return any(True for folder in (ROOT, ROOT / "tests") for _ in folder.glob(pattern))


@cache
def module_exists(dotted: str) -> bool:
    """Whether this is a module, the name of something in one, or not ours: a setting, a logger, the file `kmini.db`."""
    parts = dotted.removeprefix("kmini.").split(".")
    if dotted.startswith("kmini") and not ((ROOT / parts[0]).is_dir() or (ROOT / "embed" / f"{parts[0]}.py").exists()):
        return True
    folder = ROOT / parts.pop(0) if parts[0] in PACKAGES else ROOT / "embed"
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    if not parts:
        return True
    module = folder / f"{parts[0]}.py"
    parts = parts[1:] if module.exists() else parts
    source = module if module.exists() else folder / "__init__.py"
    return not parts or re.search(rf"\b{parts[0]}\b", text_of(source)) is not None


def stale_lists() -> Findings:
    """Each line of a package's docstring that begins with "- `batch`:" names a module of that package."""
    for path in files("__init__.py", below=SOURCES):
        for listed in re.findall(r"^- ((?:`\w+`(?:, )?)+)", ast.get_docstring(syntax_of(path)) or "", re.MULTILINE):
            for name in re.findall(r"`(\w+)`", listed):
                if not ((path.parent / f"{name}.py").exists() or (path.parent / name).is_dir()):
                    yield at(path, 1, f"the package has no module {name}")


def broken_links() -> Findings:
    for page in [ROOT / "README.md", ROOT / "docker" / "README.md", *files("*.md", below=("docs",))]:
        text = text_of(page)
        for found in LINK.finditer(text):
            linked = (page.parent / found[1]).resolve() if found[1] else page
            if not linked.exists() or (found[2] and found[2][1:] not in slugs_of(linked)):
                yield at(page, 1 + text.count("\n", 0, found.start()), f"{found[0][2:-1]} leads nowhere")


@cache
def slugs_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


# ------------------------------------------------------------------------------------------------------------- pages

COVERAGE = ROOT / "docs" / "testing" / "fault-coverage.md"
TEST = re.compile(r"`(\w+\.py)::(\w+)`")


def stale_coverage() -> Findings:
    """A row without a test says that it is open, or which part of the protocol it waits for."""
    for line, row in enumerate(text_of(COVERAGE).splitlines(), 1):
        if not row.startswith("|") or row.startswith(("|---", "| fault |")):
            continue
        fault, *_, met = (cell.strip() for cell in row.strip("|").split("|"))
        named = TEST.findall(met)
        if not (named or met == "open" or met.startswith("later: ")):
            yield at(COVERAGE, line, f"the fault {fault} names no test")
        for file, test in named:
            if test not in functions_of(ROOT / "tests" / "clients" / file):
                yield at(COVERAGE, line, f"there is no {file}::{test}")


@cache
def functions_of(path: Path) -> set[str]:
    tree = syntax_of(path) if path.exists() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def untested_findings() -> Findings:
    from findings_page import tests_of_findings

    from kmini.doctor.findings import FINDINGS, LEVELS

    page, tests = ROOT / "doctor" / "findings.py", tests_of_findings()
    for name, kind in FINDINGS.items():
        if name not in tests:
            yield at(page, 1, f"no test plants the finding {name}")
        if kind.level not in LEVELS or not kind.meaning.endswith("."):
            yield at(page, 1, f"the finding {name} has no level or no sentence")


MEASURED = re.compile(r"\d(?:[\d,.–]*\d)?\s?(?:ms|µs|s|[KMG]i?B(?:/s)?|%)(?!\w)")
CHOSEN = {"500 ms", "4 ms", "20 GiB", "256 KiB", "100 B", "256 MiB", "2 GiB"}
"""Quantities in the page's own text that are settings."""

LEAST = {
    "connections": (1, 10_000),
    "partitions": (1, 10_000),
    "groups": (1, 2_000),
    "consumers": (1, 1_000),
    "logs": (1, 16),
    "spark_tasks": (1, 4),
    "spark_partitions": (1, 64),
    "spark_sizes": (1, 16),
}
"""The first and the last point of each curve."""


def stale_curves() -> Findings:
    import performance_page as curves

    page, held = curves.PAGE, curves.read()
    text = text_of(page)
    if curves.placed(text, held) != text:
        yield at(page, 1, "other figures than bench/curves.json; run: python docs/performance_page.py")
    if [match[2] for match in curves.BLOCK.finditer(text)] != list(curves.CURVES):
        yield at(page, 1, "each curve has its place once, in the order of docs/performance_page.py")
    for figure in sorted({*MEASURED.findall(curves.BLOCK.sub("", text))} - CHOSEN):
        yield at(page, 1, f"{figure} stands beside the figures that `make curves` writes")
    ends = {name: (one["points"][0]["count"], one["points"][-1]["count"]) for name, one in held.items()}
    if ends != LEAST:
        yield at(curves.DATA, 1, f"the curves go from and to {ends}")
    for name, one in held.items():
        for point in one["points"]:
            missing = {series.key for series in curves.CURVES[name]} - point.keys() - {"working_ack_p50_us"}
            if missing:
                yield at(curves.DATA, 1, f"{name}, {point['count']}: no {', '.join(sorted(missing))}")
        if not curves.picture_file(name).exists():
            yield at(curves.DATA, 1, f"there is no picture of {name}")


CHECKS = (large_cycles, stale_names, stale_lists, broken_links, stale_coverage, untested_findings, stale_curves)


def main() -> int:
    sys.path[:0] = [str(ROOT / ".typing"), str(ROOT / "docs")]
    findings = [finding for check in CHECKS for finding in check()]
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
