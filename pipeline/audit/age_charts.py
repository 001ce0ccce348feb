"""Charts of a topic: the age of uncompacted and of dead records, against the bound."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from .assessment import duration
from .rendering import by_topic, size_text
from .report import AuditReport, PartitionReport
from .tally import BINS, bin_start_s

MAX_ROWS = 24
"""Most partitions in a chart: the ones that have waited longest."""

INK, PALE, GRID = "#1f2933", "#9aa5b1", "#e4e7eb"
WAITS, DEAD, LATE = "#2b6cb0", "#c05621", "#c53030"

_TICKS = (
    *((1, "1s"), (10, "10s"), (60, "1m"), (600, "10m"), (3600, "1h"), (6 * 3600, "6h"), (86_400, "1d")),
    *((7 * 86_400, "7d"), (30 * 86_400, "30d"), (365 * 86_400, "1y"), (3650 * 86_400, "10y")),
)


def draw_charts(report: AuditReport, folder: str, kind: str = "svg") -> list[str]:
    """Draw a chart of each compacted topic, `TOPIC.svg` or `TOPIC.png`, into a folder, which is created if missing;
    return the paths. OSError if the disk refuses."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for topic, logs in by_topic(report.partitions).items():
        if any(log.mark or not log.is_compacted for log in logs):
            continue
        paths.append(os.path.join(folder, f"{re.sub(r'[^A-Za-z0-9._-]', '_', topic)}.{kind}"))
        draw_chart(topic, logs, report.now_ms, paths[-1])
    return paths


def draw_chart(topic: str, logs: list[PartitionReport], now_ms: int, path: str) -> None:
    """Draw the chart of one topic; the path's ending selects the format."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "kmini", "font.size": 9, "axes.edgecolor": PALE}
    with mpl.rc_context(settings):
        rows = sorted(logs, key=lambda log: -_age_s(log.uncompacted_since_ms, now_ms))[:MAX_ROWS]
        rows.sort(key=lambda log: (log.partition, log.path))
        figure = Figure(figsize=(8, 3.6 + 0.28 * len(rows)), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1 + 0.35 * len(rows), 3])
        left = f", the {len(rows)} that wait longest" if len(rows) < len(logs) else ""
        figure.suptitle(f"{topic}: age of what is not compacted{left}", color=INK, fontsize=11)
        bound_ms = logs[0].bound_ms
        _draw_logs(above, rows, now_ms)
        _draw_bytes(below, logs, bound_ms)
        for axes in (above, below):
            _draw_bound(axes, bound_ms)
            axes.grid(axis="x", color=GRID, linewidth=0.6)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        _scale(below, logs, now_ms, bound_ms)
        below.legend(frameon=False, loc="upper left", fontsize=8)
        figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def _draw_logs(axes: Any, logs: list[PartitionReport], now_ms: int) -> None:
    """Draw a bar for each log: the age of its dirty part; and a dot: the time since its oldest dead value died."""
    for number, log in enumerate(logs):
        waits = _age_s(log.uncompacted_since_ms, now_ms)
        bound_s = float("inf") if log.bound_ms is None else log.bound_ms / 1000
        if waits:
            axes.barh(number, min(waits, bound_s), color=WAITS, height=0.6)
        if waits > bound_s:
            axes.barh(number, waits - bound_s, left=bound_s, color=LATE, height=0.6)
        if log.oldest_dead_since_ms is not None:
            dead = _age_s(log.oldest_dead_since_ms, now_ms)
            axes.plot([dead], [number], "o", color=LATE if dead > bound_s else DEAD, markeredgecolor="white")
    title = "bars: since when records wait; dots: since when the oldest dead value is dead"
    axes.set_title(title, loc="left", fontsize=8, color="#52606d")
    axes.set_yticks(range(len(logs)), [f"partition {log.partition}" for log in logs])
    axes.set_ylim(len(logs) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _draw_bytes(axes: Any, logs: Iterable[PartitionReport], bound_ms: int | None) -> None:
    """Draw a histogram of bytes by age."""
    edges = np.array([bin_start_s(number) for number in range(BINS + 1)])
    waits, dead = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    for log in logs:
        waits += np.array(log.uncompacted_by_age or [0] * BINS, np.int64)
        dead += np.array(log.dead_by_age or [0] * BINS, np.int64)
    shown = edges[:-1].copy()
    shown[0] = 0.5
    axes.bar(
        shown,
        waits,
        np.diff(edges),
        align="edge",
        color=WAITS,
        alpha=0.45,
        label=f"not compacted: {size_text(int(waits.sum()))}, by age",
    )
    is_late = edges[:-1] >= (float("inf") if bound_ms is None else bound_ms / 1000)
    label = f"dead: {size_text(int(dead.sum()))}, by time since then"
    axes.bar(shown, np.where(is_late, 0, dead), np.diff(edges) * 0.5, align="edge", color=DEAD, label=label)
    if dead[is_late].any():
        label = f"of that past the bound: {size_text(int(dead[is_late].sum()))}"
        axes.bar(shown, np.where(is_late, dead, 0), np.diff(edges) * 0.5, align="edge", color=LATE, label=label)
    axes.set_title("bytes of records", loc="left", fontsize=8, color="#52606d")
    axes.yaxis.set_major_formatter(lambda value, _: size_text(int(value)))


def _draw_bound(axes: Any, bound_ms: int | None) -> None:
    if bound_ms is not None:
        label = f"bound: {duration(bound_ms)}" if axes.get_legend_handles_labels()[0] else None
        axes.axvline(bound_ms / 1000, color=LATE, linestyle="--", linewidth=1.2, label=label)


def _scale(axes: Any, logs: list[PartitionReport], now_ms: int, bound_ms: int | None) -> None:
    ages = [_age_s(log.uncompacted_since_ms, now_ms) for log in logs]
    ages += [_age_s(log.oldest_dead_since_ms, now_ms) for log in logs]
    used = [bin_start_s(n + 1) for log in logs for n in range(BINS) if (log.uncompacted_by_age or [0] * BINS)[n]]
    end = max([60.0, *ages, *used, (bound_ms or 0) / 1000]) * 1.6
    axes.set_xscale("log")
    ticks = [(at, name) for at, name in _TICKS if at <= end]
    axes.set_xticks([at for at, _ in ticks], [name for _, name in ticks])
    axes.minorticks_off()
    starts = [bin_start_s(n) for log in logs for n in range(BINS) if (log.uncompacted_by_age or [0] * BINS)[n]]
    axes.set_xlim(max(min([*starts, *filter(None, ages), (bound_ms or 0) / 1000 or end]) / 4, 0.5), end)
    axes.set_xlabel("age")


def _age_s(since_ms: int | None, now_ms: int) -> float:
    return 0.0 if since_ms is None else max(now_ms - since_ms, 0) / 1000
