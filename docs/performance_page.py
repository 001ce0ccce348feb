"""The tables, figures and pictures of docs/performance.md: `python docs/performance_page.py` writes them.

They come from bench/curves.json, which `make curves` measures; it calls this script at its end. The text between the
markers of the page is replaced, the rest stays. `make lint` compares page and file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent
DATA = DOCS.parent / "bench" / "curves.json"
PAGE = DOCS / "performance.md"
PICTURES = DOCS / "pictures"
BLOCK = re.compile(r"(<!-- make curves writes (\w+) from here -->\n).*?(<!-- to here -->\n)", re.DOTALL)
COLORS = ("#2f855a", "#c05621", "#4a5568")
RECORD_BYTES, TASKS_AT_A_TIME = 200, 2
"""Of the curves of Spark (bench/spark_points.py)."""
ESTIMATED_BYTES, SPLIT_BYTES, CORES = 10e12, 2**27, 400
"""Of the estimate: 10 TB in splits of the default size, on 100 executors of 4 cores."""
PER_PIECE_FROM = 100
"""Counts from which on the memory of each piece is shown: below, single pages of memory decide."""

Point = dict[str, float]


def us(value: float) -> str:
    return f"{value:,.0f} µs" if value < 1_000 else f"{value / 1_000:,.1f} ms"


def seconds(value: float) -> str:
    return f"{value:.2f} s"


def percent(value: float) -> str:
    return f"{value:.2f} %"


def kib(value: float) -> str:
    return f"{value:.1f} KiB"


def mib(value: float) -> str:
    return f"{value:.0f} MiB"


class Series(NamedTuple):
    """A measured value: a column of the table, and a line in a panel of the picture."""

    key: str
    label: str
    panel: str
    """The title of its panel; lines with the same title share one. Empty: it is in the table only."""
    show: Callable[[float], str]


def million(value: float) -> str:
    return f"{value:.2f} M"


REST, REQUEST, START, READ = "at rest: % of a core", "per request: µs", "seconds", "million rows a second"
IDLE = Series("idle_percent", "at rest, of a core", REST, percent)
ACK = Series("ack_p50_us", "ack p50", REQUEST, us)
EACH = Series("kib_each", "memory of each", "", kib)
SPARK = (
    Series("log_rows", "`kmini-log`, rows a second", READ, million),
    Series("kafka_rows", "Spark's Kafka source, rows a second", READ, million),
    Series("log_cpu_s", "`kmini-log`, processor time of a million rows", "", seconds),
    Series("kafka_cpu_s", "Spark's Kafka source, the same", "", seconds),
    Series("shuffled_kib", "shuffled", "", kib),
    Series("mib", "memory", "", mib),
)
RESTARTS = (
    Series("clean_start_s", "start after a clean stop", START, seconds),
    Series("killed_start_s", "start after `kill -9`", START, seconds),
    Series("stop_s", "clean stop", START, seconds),
)
CURVES = {
    "connections": (EACH, IDLE, ACK, Series("working_ack_p50_us", "ack p50 of 100 that work at once", "", us)),
    "partitions": (EACH, Series("mib", "the broker, restarted", "", mib), IDLE, ACK, *RESTARTS),
    "groups": (
        EACH,
        IDLE,
        Series("heartbeat_p50_us", "heartbeat p50", REQUEST, us),
        Series("commit_p50_us", "commit p50", REQUEST, us),
        *RESTARTS,
    ),
    "consumers": (
        EACH,
        IDLE,
        Series("end_to_end_p50_us", "until half of them have a record", REQUEST, us),
        Series("end_to_end_last_us", "until the last one has it", REQUEST, us),
    ),
    "logs": (
        Series("mib", "the broker", "", mib),
        IDLE,
        ACK,
        Series("fetch_p50_us", "fetch of 256 KiB anywhere, p50", REQUEST, us),
        *RESTARTS,
    ),
    "spark_tasks": SPARK,
    "spark_partitions": SPARK,
    "spark_sizes": SPARK,
}
"""The curves, by their names in the file."""
COUNTED = {"logs": "GiB", "spark_tasks": "tasks", "spark_partitions": "partitions", "spark_sizes": "GiB"}
"""What the points of a curve count, where that is not its name."""


def read() -> dict[str, Any]:
    """The runs, each with its points."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


# The text


def cell(series: Series, point: Point) -> str:
    is_shown = series.key in point and (series is not EACH or point["count"] >= PER_PIECE_FROM)
    return series.show(point[series.key]) if is_shown else ""


def table(name: str, points: list[Point]) -> list[str]:
    columns = CURVES[name]
    head = COUNTED.get(name, name)
    rows = [[f"{point['count']:,}", *(cell(series, point) for series in columns)] for point in points]
    return [
        f"| {' | '.join([head, *(series.label for series in columns)])} |",
        f"|{'---:|' * (len(columns) + 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def growth(name: str, points: list[Point]) -> str:
    """How far the values move from the first point to the last."""
    first, last = points[0], points[-1]
    told = [
        f"{series.label} × {last[series.key] / first[series.key]:.2f}"
        for series in CURVES[name]
        if series.panel in (REQUEST, START, READ) and first.get(series.key)
    ]
    return f"From {first['count']:,} to {last['count']:,}: {', '.join(told)}."


def remarks(name: str, points: list[Point]) -> list[str]:
    """What else the values say, and where they lead if they go on as between the last two points."""
    before, last = points[-2:] if len(points) > 1 else (points[0], points[0])
    sentences = []
    step = (last.get("idle_percent", 0) - before.get("idle_percent", 0)) / ((last["count"] - before["count"]) or 1)
    if name in ("groups", "consumers") and step > 0:
        full = round(last["count"] + (100 - last["idle_percent"]) / step, -2)
        sentences.append(f"At that rate the rest alone fills a core at about {full:,.0f} {name} (extrapolated).")
    working = [point for point in points if "working_ack_p50_us" in point]
    if len(working) > 1:
        ratio = working[-1]["working_ack_p50_us"] / working[0]["working_ack_p50_us"]
        sentences.append(
            f"A hundred that work at once, among {working[-1]['count']:,}: × {ratio:.2f} of their time alone."
        )
    if "kib_each" in last:
        a_gib = round(2**20 / last["kib_each"], -3)
        sentences.append(f"1 GiB of memory holds about {a_gib:,.0f} {name} (extrapolated).")
    if name == "spark_partitions":
        cost = task_seconds(points)
        sentences.append(f"A task takes about {cost:.2f} s of a core beside its rows, by the last two points.")
    if name == "logs":
        sentences.append(f"Logs beyond {last['count']:,} GiB were not measured.")
    return sentences


def task_seconds(points: list[Point]) -> float:
    """Seconds of a core that a task takes beside its rows, from two numbers of tasks over the same 2 GiB."""
    rows = 2 * 2**30 / RECORD_BYTES / 1e6
    few, many = (rows / point["log_rows"] for point in points[-2:])
    return (many - few) * TASKS_AT_A_TIME / (points[-1]["count"] - points[-2]["count"])


def estimate(found: dict[str, Any]) -> str:
    """How long a large log would take, by the processor time of rows and of tasks."""
    rows_s = ESTIMATED_BYTES / RECORD_BYTES / 1e6 * found["spark_sizes"]["points"][-1]["log_cpu_s"]
    tasks_s = ESTIMATED_BYTES / SPLIT_BYTES * task_seconds(found["spark_partitions"]["points"])
    return (
        f"Rows of 10 TB would take {rows_s / 3600:.0f} hours of a core at the last point's rate, and tasks of 128 MiB "
        f"{tasks_s / 3600:.0f} more: {(rows_s + tasks_s) / CORES / 60:.1f} minutes on 100 executors of 4 cores "
        "(extrapolated)."
    )


def block(name: str, found: dict[str, Any]) -> str:
    """The generated text of one curve."""
    run, points = found[name]["run"], found[name]["points"]
    series = [one.label.replace("`", "") for one in CURVES[name] if one.panel]
    picture = f"![{name}: {', '.join(series)}](pictures/performance-{name}.svg)"
    about = f"Measured on {run['day']} at {run['commit']}: {run['machine']}. {run['noise']}"
    told = " ".join(
        [growth(name, points), *remarks(name, points), *([estimate(found)] if name == "spark_sizes" else [])]
    )
    return "\n".join([picture, "", *table(name, points), "", told, "", about, ""])


def placed(page: str, found: dict[str, Any]) -> str:
    """The page, with the text between its markers replaced."""
    return BLOCK.sub(lambda match: match[1] + block(match[2], found) + match[3], page)


# The pictures


def picture_file(name: str) -> Path:
    return PICTURES / f"performance-{name}.svg"


def draw(name: str, points: list[Point], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "kmini"
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    panels: dict[str, list[Series]] = {}
    for series in CURVES[name]:
        if series.panel:
            panels.setdefault(series.panel, []).append(series)
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(3.4 * len(panels), 3.2), squeeze=False)
    for axes, (title, lines) in zip(all_axes[0], panels.items(), strict=True):
        for series, color in zip(lines, COLORS, strict=False):
            shown = [point for point in points if series.key in point]
            label = series.label.replace("`", "") if len(lines) > 1 else None
            values = [point[series.key] for point in shown]
            axes.plot([point["count"] for point in shown], values, color=color, marker="o", markersize=3, label=label)
        axes.set_xscale("log")
        axes.set_xlabel(COUNTED.get(name, name))
        axes.set_title(title if len(lines) > 1 or title != REQUEST else f"{lines[0].label}: µs", fontsize=10)
        if title == START or (name, title) == ("consumers", REQUEST):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        if len(lines) > 1:
            axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


if __name__ == "__main__":
    curves = read()
    PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), curves), encoding="utf-8")
    for curve, measured in curves.items():
        draw(curve, measured["points"], picture_file(curve))
