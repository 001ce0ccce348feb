"""Compile the record kernel where a C compiler is; install without it where none is."""

import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class OptionalBuildExt(build_ext):
    """A failed compilation is a line, not an error: the same source then runs interpreted."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            print(f"kmini: kernel not compiled ({error}); it will run interpreted")
            self.extensions = []


def kernel() -> list[Extension]:
    if os.environ.get("KMINI_PURE"):
        return []
    from Cython.Build import cythonize

    lean = [] if os.name == "nt" else ["-g0"]  # a tenth of the size with debugging information
    sources = [
        Extension(f"kmini.protocol.records.{name}", [f"protocol/records/{name}.py"], extra_compile_args=lean)
        for name in ("kernel", "sieve", "flagging", "columns", "lines")
    ]
    return cythonize(sources, language_level=3, build_dir="build", include_path=["protocol/records"])


setup(ext_modules=kernel(), cmdclass={"build_ext": OptionalBuildExt})
