"""Make `.typing/kmini`, the tree that type checkers and import-linter see: a link to each module and package.

setuptools maps the folders for the interpreter; other tools do not read that. `make links` runs this.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".typing" / "kmini"


def targets() -> dict[str, Path]:
    """What each link points to, by its name: what lies in `embed/`, and the folders of the other packages."""
    found = {path.name: path for path in (ROOT / "embed").iterdir() if path.suffix == ".py" or path.name == "py.typed"}
    found |= {init.parent.name: init.parent for init in ROOT.glob("*/__init__.py")}
    del found["embed"]
    return found


def main() -> None:
    TREE.mkdir(parents=True, exist_ok=True)
    for link in TREE.iterdir():
        if link.is_symlink() or link.is_file():
            link.unlink()
    for name, target in targets().items():
        (TREE / name).symlink_to(os.path.relpath(target, TREE))


if __name__ == "__main__":
    main()
