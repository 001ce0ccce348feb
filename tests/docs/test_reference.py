"""The pages that are read off tables: committed as they would be written now, and complete."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import click
import pytest

import kmini as public
from kmini.broker.handlers import HANDLERS
from kmini.broker.settings.broker_config import BROKER_KEYS, TopicDefault
from kmini.broker.settings.group_config import GroupConfig
from kmini.cli import kmini
from kmini.storage.log_config import LogConfig

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(generator: ModuleType) -> dict[str, str]:
    written: dict[str, str] = generator.pages()
    return written


def test_the_pages_in_the_repository_are_what_is_written_now(generator: ModuleType) -> None:
    assert generator.stale() == {}, "run `make docs`"


def test_what_the_cleaner_does_otherwise_is_shown_by_a_test(generator: ModuleType) -> None:
    for behaviour in generator._oracle().CLEANER:
        file, _, function = behaviour.test.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), behaviour


def test_every_page_of_reference_is_written(pages: dict[str, str]) -> None:
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "reference").iterdir()}
    assert there <= pages.keys()


def test_every_public_name_of_the_package_is_on_the_page_of_the_api(pages: dict[str, str]) -> None:
    page = pages["docs/api.md"]
    for name in public.__all__:
        assert re.search(rf"(^## |^\| `|, ){name}\b", page, re.MULTILINE), name
    for cls in (public.Broker, public.Cluster, public.Topic, public.Clock):
        section = re.search(rf"^## {cls.__name__}, .*?(?=^## )", page, re.MULTILINE | re.DOTALL)
        assert section is not None
        listed = {*re.findall(r"^\| `(\w+)", section[0], re.MULTILINE)}
        assert listed == {name for name in dir(cls) if not name.startswith("_")}


def test_the_page_of_the_api_says_what_raises_what(pages: dict[str, str]) -> None:
    row = next(line for line in pages["docs/api.md"].splitlines() if line.startswith("| `kill(broker)`"))
    assert row.endswith("| `BrokerNotRunning` |")


def test_every_request_that_is_served_is_listed(pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| (\d+) \| `\w+` \| \d+–\d+", pages["docs/reference/apis.md"], re.MULTILINE)
    assert [int(key) for key in rows] == sorted(HANDLERS)


def test_every_setting_is_listed_once_with_what_it_does(pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| \w+ \| .*? \| (\w.+) \|$", pages["docs/reference/configs.md"], re.MULTILINE)
    assert all(meaning for _, meaning in rows)
    broker = [name for name, line in BROKER_KEYS.items() if not isinstance(line, TopicDefault)]
    assert [name for name, _ in rows] == [*broker, *LogConfig.KEYS, *GroupConfig.KEYS]


def test_every_command_is_listed(pages: dict[str, str]) -> None:
    def names(command: click.Command, prefix: str) -> list[str]:
        if not isinstance(command, click.Group):
            return [prefix]
        context = click.Context(command)
        inner = {name: command.get_command(context, name) for name in command.list_commands(context)}
        return [leaf for name, one in inner.items() if one for leaf in names(one, f"{prefix} {name}")]

    assert re.findall("^## (.*)$", pages["docs/reference/command-line.md"], re.MULTILINE) == names(kmini, "kmini")


def test_every_metric_has_a_meaning(pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(k\w+)` \| (\w+) \| (.*) \| (.*) \|$", pages["docs/reference/metrics.md"], re.MULTILINE)
    assert len(rows) > 15
    assert all(meaning for *_, meaning in rows)
    assert ("kafka_network_requestmetrics_errorspersec".removesuffix("persec") + "_total") in {row[0] for row in rows}


def test_every_reason_for_a_difference_is_told(pages: dict[str, str]) -> None:
    for line in (*BROKER_KEYS.values(), *LogConfig.KEYS.values(), *GroupConfig.KEYS.values()):
        if not isinstance(line, TopicDefault):
            for reason in filter(None, (line.differs, line.no_effect)):
                assert f"| `{line.name}` | {reason.replace('|', chr(92) + '|')}. |" in pages["docs/differences.md"]
