"""The pictures of docs/control-page.md: the page over a busy cluster, by the system's Chromium and playwright.

python docs/page_pictures.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
sys.path.append(str(ROOT / "tests"))

VIEWS = {
    "groups": ("/groups", "light", 480),
    "group": ("/groups/billing", "dark", 820),
    "overview": ("/", "light", 980),
    "topic": ("/topics/profiles", "light", 820),
    "records": ("/topics/orders", "dark", 1000),
    "requests": ("/requests", "light", 820),
    "faults": ("/faults", "light", 1180),
    "cluster": ("/cluster", "light", 820),
}
"""The views by the names of their pictures: the address, light or dark, and the height."""

WIDTH = 1240


def main(directory: Path) -> None:
    from playwright.sync_api import sync_playwright

    from support.busy_cluster import busy_cluster
    from support.page_views import CHROMIUM

    with busy_cluster() as busy, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, (address, theme, height) in VIEWS.items():
            take(browser, busy.server.url, address, theme, height, directory / f"page-{name}.png")
        browser.close()


def take(browser: Any, url: str, address: str, theme: str, height: int, path: Path) -> None:
    page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme=theme)
    page.goto(f"{url}/#{address}")
    page.wait_for_selector(f'html[data-ready="{address}"]', timeout=10_000)
    page.wait_for_timeout(4_500)  # two readings of the counters, and the marks of new records fade
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)
    page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
