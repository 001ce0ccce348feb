"""The picture on docs/compaction.md, drawn from a real run: `python docs/compaction_picture.py` writes it.

A broker is given some records and its clock is moved; at each step the picture has a row that shows what the log holds,
segment by segment, and how far it is clean. A test compares the file with what a run would draw now.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kmini import Broker
from kmini.protocol.records.record import Record

FILE = Path(__file__).resolve().parent / "pictures" / "compaction.svg"
HOUR_MS = 3_600_000
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1.0",
    "max.compaction.lag.ms": 24 * HOUR_MS,
    "delete.retention.ms": 24 * HOUR_MS,
}
STEPS: list[tuple[str, list[tuple[str, str | None]], bool, str]] = [
    ("", [("a", "1"), ("b", "1"), ("a", "2")], False, "three records are written"),
    ("12h", [("c", "1"), ("b", None)], False, "c is new; b is deleted, by a tombstone"),
    ("12h1m", [], False, "the bound: the oldest record is a day old. The segment rolls, and is cleaned"),
    ("6h", [("a", "3"), ("d", "1")], False, "more is written, to the next segment"),
    ("10h", [("d", "2")], True, "that segment is full and rolls: now it is dirty. Another one begins"),
    ("8h1m", [], False, "the horizon: a day after its first pass the tombstone goes; and a=2 with it"),
    ("16h1m", [], False, "the bound again: d=2 has been there for a day, and d=1 goes"),
]
"""The move of the clock, the records written then, whether to roll before that, and the caption."""

CELL, ROW, LEFT, TOP = 62, 74, 92, 64
INK, PALE = "#1f2933", "#9aa5b1"
COLORS = {"clean": "#2f855a", "dirty": "#c05621", "active": "#4a5568"}
MEANINGS = {"clean": "clean", "dirty": "dirty", "active": "active segment: not yet"}


class Row(NamedTuple):
    """The log at one time."""

    hour: int
    about: str
    cells: dict[int, str]
    """The record at each offset."""
    segments: list[tuple[int, int, str]]
    """First and last offset of each part, and whether it is clean, dirty or active."""


def run() -> list[Row]:
    """The event that this row shows."""
    rows, end = [], sum(len(records) for _, records, _, _ in STEPS)
    with Broker() as broker:
        broker.create_topic("letters", config=CONFIGS)
        folder = Path(broker.data_dir or "") / "broker-1"
        began_ms = broker.clock.now_ms()
        for duration, records, is_full, about in STEPS:
            if duration:
                broker.clock.advance(duration)
            if is_full:
                broker.topic("letters").roll()
            for key, value in records:
                broker.produce("letters", None if value is None else value.encode(), key=key.encode())
            cells = {record.offset: _shown(record) for record in broker.records("letters")}
            bases = sorted(int(path.stem) for path in (folder / "letters-0").glob("*.log"))
            clean = first_dirty(folder)
            ends = [*bases[1:], broker.offsets("letters").log_end_offset]
            segments = [
                (base, following, "active" if base == bases[-1] else "clean" if following <= clean else "dirty")
                for base, following in zip(bases, ends, strict=True)
                if base < following
            ]
            hour = round((broker.clock.now_ms() - began_ms) / HOUR_MS)
            rows.append(Row(hour, about, cells, segments))
    assert max(following for row in rows for _, following, _ in row.segments) == end
    return rows


def _shown(record: Record) -> str:
    return (record.key or b"").decode() + "=" + ("∅" if record.value is None else record.value.decode())


def first_dirty(folder: Path) -> int:
    """Up to where the cleaner's checkpoint says that the log is clean."""
    path = folder / "cleaner-offset-checkpoint"
    lines = path.read_text(encoding="utf-8").splitlines()[2:] if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith("letters 0 ")), default=0)


def draw(rows: list[Row]) -> str:
    """The picture, as SVG."""
    width = max(LEFT + CELL * max(row.segments[-1][1] for row in rows) + 24, 640)
    height = TOP + ROW * len(rows) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="14" role="img">',
        "<title>A log over two days: what is written, superseded, deleted and cleaned</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(16, 40, "offset", PALE),
    ]
    count = max(row.segments[-1][1] for row in rows)
    parts += [_text(LEFT + CELL * offset + CELL // 2 - 6, 40, str(offset), PALE, "middle") for offset in range(count)]
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        parts += [_text(16, y + 22, f"hour {row.hour}", INK), _text(LEFT, y + 58, row.about, "#52606d", size=13)]
        for base, following, kind in row.segments:
            x = LEFT + CELL * base
            line = f'x1="{x}" x2="{x + CELL * (following - base) - 12}" y1="{y + 38}" y2="{y + 38}"'
            parts.append(f'<line {line} stroke="{COLORS[kind]}" stroke-width="4"/>')
            for offset in range(base, following):
                parts += _cell(LEFT + CELL * offset, y, row.cells.get(offset))
    y, x = height - 12, LEFT
    for kind, meaning in MEANINGS.items():
        parts.append(
            f'<line x1="{x}" x2="{x + 28}" y1="{y - 5}" y2="{y - 5}" stroke="{COLORS[kind]}" stroke-width="4"/>'
        )
        parts.append(_text(x + 36, y, meaning, INK, size=13))
        x += 100
    return "\n".join([*parts, "</svg>", ""])


def _cell(x: int, y: int, content: str | None) -> list[str]:
    box = f'<rect x="{x}" y="{y + 2}" width="{CELL - 12}" height="30" rx="4"'
    if content is None:
        return [f'{box} fill="none" stroke="{PALE}" stroke-dasharray="3 3"/>']
    color = "#fbd38d" if content.endswith("∅") else "#bee3f8"
    return [f'{box} fill="{color}"/>', _text(x + CELL // 2 - 6, y + 22, content, INK, "middle")]


def _text(x: int, y: int, text: str, color: str, anchor: str = "start", size: int = 14) -> str:
    return f'<text x="{x}" y="{y}" fill="{color}" text-anchor="{anchor}" font-size="{size}">{text}</text>'


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(draw(run()), encoding="utf-8")
