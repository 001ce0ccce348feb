"""The Grafana dashboard of the stack: every metric that it names is one of kmini's."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from kmini import Broker
from support.docker.dockerfile import DOCKER

GRAFANA = DOCKER / "grafana"
PROMETHEUS_OWN = {"up"}
"""Metrics that Prometheus itself makes."""

OF_HISTOGRAMS = re.compile(r"_(bucket|count|sum)$")


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GRAFANA / "dashboards" / "kmini.json").read_text())
    return found


def metrics_of(expression: str) -> set[str]:
    """The metrics that an expression names: words before braces or brackets, and those that begin as metrics do."""
    without_labels = re.sub(r"{[^}]*}", "", re.sub(r"\b(by|without) \([^)]*\)", "", expression))
    words = set(re.findall(r"\b[a-z_]\w*\b(?!\s*\()", re.sub(r"\[[^\]]*\]", "", without_labels)))
    return words - {"by"}


def test_the_words_of_an_expression_are_found() -> None:
    text = 'sum by (topic) (rate(a_total{job="kmini",x=~"$x"}[$__rate_interval]) - b_c) / max(up{})'
    assert metrics_of(text) == {"a_total", "b_c", "up"}


def test_every_metric_of_the_dashboard_is_one_that_kmini_gives(dashboard: dict[str, Any]) -> None:
    with Broker(topics=["orders"]) as broker:
        given = set(re.findall(r"^# TYPE (\w+)", broker.metrics_text(), re.MULTILINE))
    named = {
        metric
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
        for metric in metrics_of(target["expr"])
    }
    named |= {one["query"]["query"].removeprefix("label_values(").partition(",")[0] for one in variables(dashboard)}
    assert len(named) > 20
    assert {name for name in named if not {name, OF_HISTOGRAMS.sub("", name)} & given} == PROMETHEUS_OWN


def variables(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dashboard["templating"]["list"]
    return found


def test_every_panel_has_an_id_a_place_and_the_provisioned_data_source(dashboard: dict[str, Any]) -> None:
    provisioned = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text())
    (source,) = provisioned["datasources"]
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": source["type"], "uid": source["uid"]}
            assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


def test_every_variable_in_an_expression_is_one_of_the_dashboard_or_of_grafana(dashboard: dict[str, Any]) -> None:
    known = {one["name"] for one in variables(dashboard)} | {"__rate_interval"}
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert {name for text in expressions for name in re.findall(r"\$(\w+)", text)} == known
