"""A pytest of its own for each test of the plugin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

RunPytest = Callable[..., pytest.RunResult]

PLUGINS = {
    "asyncio": ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function"),
    "randomly": ("-p", "pytest_randomly"),
    "xdist": ("-p", "xdist.plugin"),
}


class KeptModules:
    """Remembers kmini's modules at the end of the inner run.

    pytester forgets what was imported there, and a module that is imported again has other classes.
    """

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        self.modules |= {name: one for name, one in sys.modules.items() if name.partition(".")[0] == "kmini"}


@pytest.fixture(autouse=True)
def kept_modules() -> Iterator[KeptModules]:
    """Used by all tests, so that it ends after pytester, which forgets a last time."""
    kept = KeptModules()
    yield kept
    sys.modules.update(kept.modules)


@pytest.fixture
def run_pytest(kept_modules: KeptModules, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunPytest:
    """`run_pytest(text, *arguments)`: run the tests in `text` in this process, with the plugins named in `plugins`.

    The search for installed plugins, which takes most of the time of a small run, is left out.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(text: str, *arguments: str, conftest: str = "", plugins: tuple[str, ...] = ()) -> pytest.RunResult:
        pytester.makepyfile(text)
        if conftest:
            pytester.makeconftest(conftest)
        loaded = [part for name in plugins for part in PLUGINS[name]]
        options = ("-q", "-p", "kmini.pytest_plugin", "-p", "no:cacheprovider", *loaded)
        result = pytester.runpytest_inprocess(*options, *arguments, plugins=[kept_modules])
        sys.modules.update(kept_modules.modules)
        return result

    return run
