"""A pytest of its own for each test of the plugin."""

from __future__ import annotations

from collections.abc import Callable

import pytest

RunPytest = Callable[..., pytest.RunResult]

PLUGINS = {
    "asyncio": ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function"),
    "randomly": ("-p", "pytest_randomly"),
    "xdist": ("-p", "xdist.plugin"),
}


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunPytest:
    """`run_pytest(text, *arguments)`: run the tests in `text` in this process, with the plugins named in `plugins`.

    The search for installed plugins, which takes most of the time of a small run, is left out.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(text: str, *arguments: str, conftest: str = "", plugins: tuple[str, ...] = ()) -> pytest.RunResult:
        pytester.makepyfile(text)
        if conftest:
            pytester.makeconftest(conftest)
        loaded = [part for name in plugins for part in PLUGINS[name]]
        return pytester.runpytest_inprocess(
            "-q", "-p", "kmini.pytest_plugin", "-p", "no:cacheprovider", *loaded, *arguments
        )

    return run
