"""Map folders to packages, and compile some modules where a C compiler is; without one they run interpreted.

Before Cython sees a module, its parts are put before it in one file (`amalgamated`), so that the C compiler sees all of
it; and the numbers of protocol/records/layout.py become constants of C (`layout_for_c`). The codecs of some messages
are made as Cython (`codecs_for_cython`). All of it is written below build/. `protocol/extension_modules.py` says how
the modules are loaded.
"""

import ast
import os
import sys
import zlib
from pathlib import Path

PACKAGES = {init.parent.name: f"kmini.{init.parent.name}" for init in Path().glob("*/__init__.py")} | {"embed": "kmini"}
"""The package of each root folder."""

COMPILED = (
    "kmini.broker.journal.request_journal",
    "kmini.protocol.framing",
    "kmini.protocol.records.kernels.records",
    "kmini.protocol.records.kernels.sieve",
    "kmini.protocol.records.kernels.flagging",
    "kmini.protocol.records.kernels.columns",
    "kmini.protocol.records.kernels.lines",
)
"""Modules that become an extension each, beside their source."""

CODECS = "kmini.protocol.compiled_codecs"
"""An extension, too, whose source for Cython is written by protocol/codec_extension.py."""

SHARED = "kmini.protocol.cython_shared"
"""An extension, too: what Cython would put into each of the others, such as the code of memoryviews."""

LAYOUT = "kmini.protocol.records.layout"
WORDS = "cython_words"
"""The module that stands for `cython` where a module runs interpreted; modules that import it can be compiled."""
FOR_CYTHON = Path("build/for_cython")
FOR_C = Path("protocol/records/kernels")
"""The folder of declarations of C that modules import from `cython.cimports`."""


def source_of(module: str, tree: Path = Path()) -> Path:
    """The file of a module of kmini; it need not be there."""
    root = next((folder for folder, package in PACKAGES.items() if module.startswith(f"kmini.{folder}.")), "embed")
    return tree / f"{root}/{module.removeprefix(PACKAGES[root] + '.').replace('.', '/')}.py"


def layout_numbers(tree: Path = Path()) -> "dict[str, int]":
    """The constants of layout.py that are whole numbers."""
    numbers: dict[str, int] = {}
    for statement in ast.parse(source_of(LAYOUT, tree).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = eval(ast.unparse(statement.value), {"__builtins__": {}}, dict(numbers))
            if type(value) is int:
                numbers[statement.targets[0].id] = value
    return numbers


def layout_for_c(tree: Path = Path()) -> str:
    """A .pxd with these constants."""
    return "cdef enum:\n" + "".join(f"    {name} = {value}\n" for name, value in layout_numbers(tree).items())


def codecs_for_cython() -> str:
    """The source of CODECS, by the package `protocol`: it is not `kmini.protocol` before anything is installed."""
    sys.path.insert(0, str(Path(__file__).parent))
    from protocol.codec_extension import extension_source

    return extension_source()


def amalgamated(module: str, tree: Path = Path()) -> str:
    """The source of a module for Cython: each part before the module that imports it, then the module itself.

    A part is a module that imports `cython_words` and is no extension of its own. ValueError if two of them define the
    same name. The comments before the docstring are kept: they have the directives for Cython. The extension has
    `SOURCE_CRC`, the checksum of what was compiled, and if it uses numbers of the layout `LAYOUT`, all of them as they
    were compiled: by both a test finds an extension that is out of date.
    """
    numbers = layout_numbers(tree)
    pieces: list[str] = []
    defined: dict[str, str] = {}
    parts: list[str] = []
    uses_layout = False

    def add(part: str) -> None:
        nonlocal uses_layout
        if part in parts:
            return
        parts.append(part)
        source = source_of(part, tree).read_text(encoding="utf-8")
        for statement in ast.parse(source).body:
            text = _text_of(statement, source, part)
            if isinstance(statement, ast.ImportFrom):
                imported = _imported(statement, part)
                if statement.level and _is_part(imported, tree):
                    add(imported)
                    continue
                if imported == "__future__" or WORDS in (alias.name for alias in statement.names):
                    continue
                if imported == LAYOUT:
                    uses_layout = True
                    objects = [alias.name for alias in statement.names if alias.name not in numbers]
                    text = f"from {LAYOUT} import {', '.join(objects)}" if objects else ""
            for name in _defined_by(statement):
                if defined.setdefault(name, part) != part:
                    raise ValueError(f"{_file(defined[name])} and {_file(part)} both define {name}")
            if text and not isinstance(statement, ast.Expr):
                pieces.append(text)

    add(module)
    body = "\n\n\n".join(pieces)
    layout = (
        f"from cython.cimports.layout import {', '.join(numbers)}",
        "LAYOUT = {" + ", ".join(f'"{name}": {name}' for name in numbers) + "}",
    )
    return "\n".join(
        (
            *_first_comments(source_of(module, tree).read_text(encoding="utf-8")),
            f'"""{", ".join(_file(part) for part in parts)}: written by setup.py."""',
            "from __future__ import annotations",
            "import cython",
            *(layout if uses_layout else ()),
            f"SOURCE_CRC = {zlib.crc32(body.encode())}",
            body,
            "",
        )
    )


def _file(module: str) -> str:
    return module.rpartition(".")[2] + ".py"


def _imported(statement: ast.ImportFrom, module: str) -> str:
    """The full name of the module, or of the package, that a statement of `module` imports from."""
    if not statement.level:
        return statement.module or ""
    package = module.split(".")[: -statement.level]
    return ".".join([*package, statement.module] if statement.module else package)


def _is_part(module: str, tree: Path) -> bool:
    source = source_of(module, tree)
    words = f"import {WORDS} as cython"
    return module not in COMPILED and source.is_file() and words in source.read_text(encoding="utf-8")


def _first_comments(source: str) -> "list[str]":
    """The lines of comments with which a source begins."""
    lines = source.splitlines()
    return lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))]


def _text_of(statement: ast.stmt, source: str, module: str) -> str:
    """A statement as it is written, with its decorators, but what it imports has full names."""
    lines = source.splitlines()
    for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom) and node.level and node.end_lineno is not None:
            names = ", ".join(ast.unparse(alias) for alias in node.names)
            last = [""] * (node.end_lineno - node.lineno)
            text = f"{' ' * node.col_offset}from {_imported(node, module)} import {names}"
            lines[node.lineno - 1 : node.end_lineno] = [text, *last]
    first = min([statement.lineno, *(line.lineno for line in getattr(statement, "decorator_list", ()))])
    return "\n".join(lines[first - 1 : statement.end_lineno])


def _defined_by(statement: ast.stmt) -> "list[str]":
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def _write(path: Path, text: str) -> str:
    """Write a file unless it has this text already: its date tells Cython whether to compile it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return str(path)


if __name__ == "__main__":
    from setuptools import Extension, find_packages, setup
    from setuptools.command.build_ext import build_ext

    class OptionalBuildExt(build_ext):
        """A failed compilation is a line, not an error: the same source then runs interpreted."""

        def finalize_options(self) -> None:
            super().finalize_options()
            self.parallel = self.parallel or os.cpu_count()

        def run(self) -> None:
            try:
                super().run()
            except Exception as error:
                print(f"kmini: no module compiled ({error}); all will run interpreted")
                for extension in self.extensions:  # one that was compiled may need another
                    Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
                self.extensions = []

    def package_folders() -> "dict[str, str]":
        """The folder of every package: a root folder, or one with an `__init__.py` below it."""
        folders = {package: root for root, package in PACKAGES.items()}
        for root, package in PACKAGES.items():
            folders |= {f"{package}.{name}": f"{root}/{name.replace('.', '/')}" for name in find_packages(root)}
        return folders

    def extensions() -> "list[Extension]":
        if os.environ.get("KMINI_PURE"):
            return []
        from Cython.Build import cythonize

        _write(FOR_CYTHON / "layout.pxd", layout_for_c())
        lean = [] if os.name == "nt" else ["-g0"]  # a tenth of the size with debugging information
        files = {module: _write(FOR_CYTHON / source_of(module), amalgamated(module)) for module in COMPILED}
        files[CODECS] = _write((FOR_CYTHON / source_of(CODECS)).with_suffix(".pyx"), codecs_for_cython())
        # The codecs are calls of Python's objects: optimized less they are compiled in half the time, and as fast.
        options = {CODECS: lean if os.name == "nt" else [*lean, "-O1"]}
        sources = [Extension(name, [file], extra_compile_args=options.get(name, lean)) for name, file in files.items()]
        sources.append(Extension(SHARED, [], extra_compile_args=lean))
        includes = [str(FOR_CYTHON), str(FOR_C)]
        processes = os.cpu_count() or 1 if sys.platform == "linux" else 0  # others start them anew, which costs more
        return cythonize(
            sources,
            language_level=3,
            build_dir="build",
            include_path=includes,
            nthreads=processes,
            shared_utility_qualified_name=SHARED,
        )

    folders = package_folders()
    setup(
        packages=sorted(folders),
        package_dir=folders,
        ext_modules=extensions(),
        cmdclass={"build_ext": OptionalBuildExt},
    )
