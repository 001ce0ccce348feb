"""Map folders to packages, and compile the record kernels where a C compiler is; without one they run interpreted."""

import os

from setuptools import Extension, find_packages, setup
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


PACKAGES = {"embed": "kmini"} | {
    folder: f"kmini.{folder}" for folder in ("protocol", "storage", "client", "broker", "graduation", "pipeline")
}
"""The package of each root folder."""


def package_folders() -> dict[str, str]:
    """The folder of every package: a root folder, or one with an `__init__.py` below it."""
    folders = {package: root for root, package in PACKAGES.items()}
    for root, package in PACKAGES.items():
        folders |= {f"{package}.{name}": f"{root}/{name.replace('.', '/')}" for name in find_packages(root)}
    return folders


folders = package_folders()
setup(packages=sorted(folders), package_dir=folders, ext_modules=kernel(), cmdclass={"build_ext": OptionalBuildExt})
