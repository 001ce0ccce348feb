"""The files of the page, and the headers with which a browser runs no other script and shows it in no frame.

They hold no data, so they need no token. What the page shows it asks of the control API, with the token that the link
brought in its fragment, which browsers send nowhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

INDEX = "index.html"

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The media types of the files, by what their names end with."""

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageFile(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str
    etag: str
    """Another one when the content is another one, in quotes."""


@cache
def page_files() -> Mapping[str, PageFile]:
    """The files by their paths: the page at "/", the others at "/page/NAME"."""
    found: dict[str, PageFile] = {}
    for file in Path(__file__).with_name("page").iterdir():
        media_type = TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            path = "/" if file.name == INDEX else f"/page/{file.name}"
            found[path] = PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found
