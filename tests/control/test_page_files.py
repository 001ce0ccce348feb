"""The files of the page: open without a token, and served so that a browser runs nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kmini.control.access import Access
from kmini.control.control_server import SECURITY_HEADERS, page_files
from support.control_api import ControlApi

PAGE = Path(__file__).resolve().parents[2] / "control" / "page"

PARSES = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|srcdoc|"
    r"\beval\b|new Function|javascript:|\.style\b|setTimeout\(\s*[\"'`]"
)
"""What would make text of a client into markup or code, or needs a laxer Content-Security-Policy."""

HOST = {"Host": "127.0.0.1:8090"}


def test_every_file_is_served_with_its_type_and_the_headers(api: ControlApi) -> None:
    assert {file.name for file in PAGE.iterdir()} == {path.rpartition("/")[2] or "index.html" for path in page_files()}
    for path, file in page_files().items():
        answer = api.send("GET", path)
        assert (answer.status, answer.body) == (200, file.content)
        assert answer.headers["Content-Type"] == file.media_type
        assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_a_file_that_a_browser_has_is_not_sent_again(api: ControlApi) -> None:
    etag = api.send("GET", "/page/main.js").headers["ETag"]
    answer = api.send("GET", "/page/main.js", headers={"If-None-Match": etag})
    assert (answer.status, answer.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/", "/page/../access.py", "/page/%2e%2e/access.py", "/page//etc/passwd", "/page/x"]
)
def test_no_other_file_can_be_had(api: ControlApi, path: str) -> None:
    assert api.send("GET", path).status == 404


@pytest.mark.parametrize("name", sorted(file.name for file in PAGE.iterdir()))
def test_a_file_makes_no_markup_of_text_and_asks_no_other_server(name: str) -> None:
    text = (PAGE / name).read_text(encoding="utf-8")
    assert PARSES.findall(text) == []
    addresses = {found for found in re.findall(r"https?://[^\"'\s)>]+", text) if found != "http://www.w3.org/2000/svg"}
    assert addresses == set()
    if name.endswith(".html"):
        assert re.findall(r"<script(?![^>]*\bsrc=)|\bstyle=|\bon\w+=", text) == [], "scripts and styles are files"


def test_the_policy_allows_nothing_inline_and_nothing_of_others() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_files_need_no_token_and_a_link_may_lead_to_the_page() -> None:
    followed = {**HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    access = Access("a token")
    for path in page_files():
        assert access.refusal("GET", path, HOST, has_body=False) is None
        assert access.refusal("GET", path, followed, has_body=False) is None
    for verb, path, headers in (
        ("POST", "/", HOST),
        ("GET", "/api/v1/topics", HOST),
        ("GET", "/api/v1/topics", followed),
        ("GET", "/", {**followed, "Sec-Fetch-Mode": "no-cors"}),
        ("GET", "/", {**HOST, "Origin": "http://other"}),
    ):
        assert access.refusal(verb, path, headers, has_body=False) is not None


def test_the_page_is_served_to_names_of_this_machine_alone_without_a_token() -> None:
    refusal = Access(None).refusal("GET", "/", {"Host": "kmini.example.com"}, has_body=False)
    assert refusal is not None
