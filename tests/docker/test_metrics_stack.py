"""Prometheus with the stack's configuration reads kmini's metrics, and the dashboard's expressions find data there."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from support.docker.dockerfile import DOCKER
from support.until import until

kafka = pytest.importorskip("kafka")

TOKEN = "of-the-tests"
SECRET = "/run/secrets/kmini-http-token"
DASHBOARD = DOCKER / "grafana" / "dashboards" / "kmini.json"
LISTENING = re.compile(r'msg="?Listening on"? address=(\S+)')

VARIABLES = {"$__rate_interval": "10s", "$broker": ".*", "$topic": ".+"}
"""What Grafana puts for the dashboard's variables while all brokers and topics are shown."""


def why_not() -> str:
    """Why Prometheus cannot be run here; empty where it can."""
    missing = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"no {missing[0]} on the path (Debian's package prometheus has it)" if missing else ""


@pytest.fixture(scope="module", autouse=True)
def _need_prometheus() -> None:
    if reason := why_not():
        pytest.skip(reason)


def expressions() -> dict[str, str]:
    """The expressions of the dashboard by panel and letter."""
    dashboard = json.loads(DASHBOARD.read_text())
    return {
        f"{panel['title']}, {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }


class Stack(NamedTuple):
    """kmini and a Prometheus that reads it."""

    bootstrap_servers: list[str]
    prometheus: str
    """Its URL."""

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of Prometheus' API."""
        url = f"{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]

    def values(self, expression: str) -> list[float]:
        """The values of an expression now, without NaN."""
        found = [float(one["value"][1]) for one in self.ask("query", query=expression)["result"]]
        return [value for value in found if value == value]


def configured(file: Path, http: str, folder: Path) -> Path:
    """The stack's configuration of Prometheus, with what is not the same here: where kmini is, where the token is, and
    how often it is read."""
    text = file.read_text()
    assert "broker:8090" in text
    assert SECRET in text
    (folder / "token").write_text(TOKEN)
    configuration = yaml.safe_load(text.replace("broker:8090", http).replace(SECRET, str(folder / "token")))
    configuration["global"]["scrape_interval"] = "500ms"
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration))
    return path


def is_ready(prometheus: str) -> bool:
    """Whether Prometheus answers queries already: it listens before it does."""
    try:
        with urllib.request.urlopen(f"{prometheus}/-/ready", timeout=30):
            return True
    except urllib.error.HTTPError as refused:
        refused.close()
        return False


@pytest.fixture(scope="module", params=[(1, "prometheus.yml"), (3, "cluster/prometheus.yml")], ids=["one", "three"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    brokers, file = request.param
    folder = tmp_path_factory.mktemp("stack")
    environ = {
        **os.environ,
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KMINI_BROKERS": str(brokers),
        "KMINI_HTTP": "0",
        "KMINI_HTTP_HOST": "127.0.0.1",
        "KMINI_HTTP_TOKEN": TOKEN,
        "KAFKA_LOG_DIRS": str(folder / "data"),
        "KMINI_INIT_DIR": str(DOCKER / ("init" if brokers == 1 else "cluster/init")),
    }
    with ExitStack() as opened:

        def launch(command: list[str], **options: Any) -> subprocess.Popen[str]:
            process = opened.enter_context(subprocess.Popen(command, text=True, **options))
            opened.callback(process.send_signal, signal.SIGKILL)
            return process

        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        kmini = launch([sys.executable, "-m", "kmini", "serve", "--env"], env=environ, **quiet)
        assert kmini.stdout is not None
        addresses = [kmini.stdout.readline().strip() for _ in range(brokers)]
        http = kmini.stdout.readline().strip().removeprefix("http://").rstrip("/")
        assert kmini.stdout.readline().startswith("ready: "), "the init directory of the stack is done"
        path = configured(DOCKER / file, http, folder)
        subprocess.run(["promtool", "check", "config", str(path)], check=True, capture_output=True, timeout=60)
        storage = f"--storage.tsdb.path={folder / 'tsdb'}"
        prometheus = launch(
            ["prometheus", f"--config.file={path}", storage, "--web.listen-address=127.0.0.1:0"],
            stdout=subprocess.DEVNULL,
            stderr=opened.enter_context((folder / "log").open("w")),
        )
        heard = until(
            lambda: LISTENING.search((folder / "log").read_text()) or prometheus.poll() is not None,
            lambda: (folder / "log").read_text(),
        )
        assert isinstance(heard, re.Match), (folder / "log").read_text()
        until(partial(is_ready, f"http://{heard[1]}"))
        yield Stack(addresses, f"http://{heard[1]}")


def test_prometheus_reads_every_broker_with_the_token_from_the_file(stack: Stack) -> None:
    count = len(stack.bootstrap_servers)
    until(
        lambda: stack.values('sum(up{job="kmini"})') == [count],
        lambda: stack.ask("targets")["activeTargets"],
    )
    uptimes = stack.ask("query", query="kmini_uptime_seconds")["result"]
    assert sorted(one["metric"]["broker"] for one in uptimes) == [str(number + 1) for number in range(count)]


def test_each_expression_of_the_dashboard_finds_data(stack: Stack) -> None:
    lacking = dict(expressions())
    assert len(lacking) > 20
    producer = kafka.KafkaProducer(bootstrap_servers=stack.bootstrap_servers)
    consumer = kafka.KafkaConsumer(
        "orders", group_id="billing", bootstrap_servers=stack.bootstrap_servers, auto_offset_reset="earliest"
    )

    def all_found() -> bool:
        producer.send("orders", b"an order").get(timeout=30)
        consumer.poll(timeout_ms=200)
        for name, expression in list(lacking.items()):
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            assert "$" not in expression, expression
            if stack.values(expression):
                del lacking[name]
        return not lacking

    try:
        until(all_found, lambda: f"no data for {lacking}")
    finally:
        producer.close()
        consumer.close()


def test_the_variables_of_the_dashboard_list_brokers_and_topics(stack: Stack) -> None:
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
        ask = partial(stack.ask, f"label/{label}/values", **{"match[]": series})
        wanted = {"broker": "1", "topic": "orders"}[label]
        until(lambda ask=ask, wanted=wanted: wanted in ask(), ask)


def test_without_the_token_nothing_is_read(stack: Stack) -> None:
    targets = until(lambda: stack.ask("targets")["activeTargets"])
    request = urllib.request.Request(targets[0]["scrapeUrl"])
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    with refused.value:
        assert refused.value.code == 401
