"""Map folders to packages, and compile the kernels where a C compiler is; without one they run interpreted.

Before Cython sees a kernel, its parts are put before it in one file (`amalgamated`), so that the C compiler sees all of
it; and the numbers of protocol/records/layout.py become constants of C (`layout_for_c`). Both are written below build/.
"""

import ast
import os
import zlib
from pathlib import Path

PACKAGES = {"embed": "kmini"} | {
    folder: f"kmini.{folder}" for folder in ("protocol", "storage", "client", "broker", "graduation", "pipeline")
}
"""The package of each root folder."""

RECORDS = Path("protocol/records")
KERNELS = ("records", "sieve", "flagging", "columns", "lines")
"""Modules of protocol/records/kernels that become an extension each."""
FOR_CYTHON = Path("build/kernels")


def layout_numbers(records: Path) -> "dict[str, int]":
    """The constants of layout.py that are whole numbers."""
    numbers: dict[str, int] = {}
    for statement in ast.parse((records / "layout.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = eval(ast.unparse(statement.value), {"__builtins__": {}}, dict(numbers))
            if type(value) is int:
                numbers[statement.targets[0].id] = value
    return numbers


def layout_for_c(records: Path) -> str:
    """A .pxd with these constants."""
    return "cdef enum:\n" + "".join(f"    {name} = {value}\n" for name, value in layout_numbers(records).items())


def amalgamated(records: Path, kernel: str) -> str:
    """The source of a kernel for Cython: each part before the module that imports it, then the kernel itself.

    A part is a module of the package that imports `cython_words`. ValueError if two of them define the same name. The
    extension has `LAYOUT`, the constants as they were compiled, and `SOURCE_CRC`, the checksum of what was compiled: by
    both a test finds an extension that is out of date.
    """
    numbers = layout_numbers(records)
    pieces: list[str] = []
    defined: dict[str, str] = {}
    parts: list[str] = []

    def add(part: str) -> None:
        if part in parts:
            return
        parts.append(part)
        source = (records / "kernels" / f"{part}.py").read_text(encoding="utf-8")
        for statement in ast.parse(source).body:
            text = _text_of(statement, source)
            if isinstance(statement, ast.ImportFrom):
                if statement.level == 1 and statement.module and _is_part(records, statement.module):
                    add(statement.module)
                    continue
                if statement.module == "__future__" or (statement.level == 1 and not statement.module):
                    continue
                if (statement.level, statement.module) == (2, "layout"):
                    objects = [alias.name for alias in statement.names if alias.name not in numbers]
                    text = f"from ..layout import {', '.join(objects)}" if objects else ""
            for name in _defined_by(statement):
                if defined.setdefault(name, part) != part:
                    raise ValueError(f"{defined[name]}.py and {part}.py both define {name}")
            if text and not isinstance(statement, ast.Expr):
                pieces.append(text)

    add(kernel)
    body = "\n\n\n".join(pieces)
    return "\n".join(
        (
            "# cython: boundscheck=False, wraparound=False, initializedcheck=False",
            f'"""{", ".join(parts)}: written by setup.py."""',
            "from __future__ import annotations",
            "import cython",
            f"from cython.cimports.layout import {', '.join(numbers)}",
            "LAYOUT = {" + ", ".join(f'"{name}": {name}' for name in numbers) + "}",
            f"SOURCE_CRC = {zlib.crc32(body.encode())}",
            body,
            "",
        )
    )


def _is_part(records: Path, module: str) -> bool:
    return "import cython_words as cython" in (records / "kernels" / f"{module}.py").read_text(encoding="utf-8")


def _text_of(statement: ast.stmt, source: str) -> str:
    """A statement as it is written, with its decorators."""
    first = min([statement.lineno, *(line.lineno for line in getattr(statement, "decorator_list", ()))])
    return "\n".join(source.splitlines()[first - 1 : statement.end_lineno])


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

        def run(self) -> None:
            try:
                super().run()
            except Exception as error:
                print(f"kmini: kernels not compiled ({error}); they will run interpreted")
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

        _write(FOR_CYTHON / "layout.pxd", layout_for_c(RECORDS))
        lean = [] if os.name == "nt" else ["-g0"]  # a tenth of the size with debugging information
        sources = [
            Extension(
                f"kmini.protocol.records.kernels.{kernel}",
                [_write(FOR_CYTHON / f"{kernel}.py", amalgamated(RECORDS, kernel))],
                extra_compile_args=lean,
            )
            for kernel in KERNELS
        ]
        include = [str(FOR_CYTHON), str(RECORDS / "kernels")]
        return cythonize(sources, language_level=3, build_dir="build", include_path=include)

    folders = package_folders()
    setup(
        packages=sorted(folders),
        package_dir=folders,
        ext_modules=extensions(),
        cmdclass={"build_ext": OptionalBuildExt},
    )
