"""Files of the repository, read without importing them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def syntax(path: str) -> ast.Module:
    return ast.parse(text(path))
