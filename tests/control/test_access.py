"""Which requests are served: the token, and no page of another site, whatever a browser can send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kmini.control.access import Access, new_token
from kmini.control.routes import PREFIX, ROUTES
from support.control_api import ControlApi, problem_of

JSON = {"Content-Type": "application/json"}
TOKEN = "a-token-of-the-test"
LOCAL = {"Host": "127.0.0.1:8090"}


def status(
    headers: Mapping[str, str],
    *,
    token: str | None = None,
    method: str = "POST",
    path: str = "/api/v1/reset",
    has_body: bool = False,
) -> int | None:
    refusal = Access(token).refusal(method, path, headers, has_body=has_body)
    return None if refusal is None else refusal.problem["status"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8090", "127.0.0.1:8090", "[::1]:8090", "[::1]"])
def test_a_name_of_this_machine_is_served_without_a_token(host: str) -> None:
    assert status({"Host": host}) is None


@pytest.mark.parametrize("host", ["", "example.com", "example.com:8090", "127.0.0.1.example.com", "10.0.0.1:8090"])
def test_another_name_is_refused_without_a_token_because_dns_can_be_rebound(host: str) -> None:
    assert status({"Host": host}) == 421
    assert status({"Host": host}, method="GET", path="/metrics") == 421


def test_with_a_token_any_name_is_served() -> None:
    assert status({"Host": "kafka:8090", "Authorization": f"Bearer {TOKEN}"}, token=TOKEN) is None


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \udcff"]
)
def test_a_missing_or_wrong_token_is_refused(given: str) -> None:
    headers = {**LOCAL, "Authorization": given} if given else LOCAL
    refusal = Access(TOKEN).refusal("GET", f"{PREFIX}/topics", headers, has_body=False)
    assert refusal is not None
    assert refusal.problem["status"] == 401
    assert refusal.headers["WWW-Authenticate"].startswith("Bearer")
    assert TOKEN not in str(refusal)


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready"])
def test_health_needs_no_token(path: str) -> None:
    assert status(LOCAL, token=TOKEN, method="GET", path=path) is None


def test_all_else_needs_the_token() -> None:
    for path in ("/metrics", f"{PREFIX}/openapi.json", *(PREFIX + route.path for route in ROUTES)):
        assert status(LOCAL, token=TOKEN, method="GET", path=path) == 401


@pytest.mark.parametrize("origin", ["http://example.com", "null", "http://127.0.0.1:9999", "http://localhost:8090", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_a_page_of_another_origin_is_refused(origin: str, method: str) -> None:
    assert status({**LOCAL, "Origin": origin}, method=method) == 403


def test_the_servers_own_page_is_served() -> None:
    assert status({**LOCAL, "Origin": "http://127.0.0.1:8090", "Sec-Fetch-Site": "same-origin"}) is None
    assert status({**LOCAL, "Sec-Fetch-Site": "none"}) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site", ""])
def test_what_a_browser_sends_for_another_site_is_refused_even_to_read(site: str) -> None:
    assert status({**LOCAL, "Sec-Fetch-Site": site}, method="GET") == 403


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_body_that_is_not_said_to_be_json_is_refused(kind: str, method: str) -> None:
    headers = {**LOCAL, "Content-Type": kind} if kind else LOCAL
    assert status(headers, method=method, has_body=True) == 415


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_a_body_of_json_is_served(kind: str) -> None:
    assert status({**LOCAL, "Content-Type": kind}, has_body=True) is None


def test_tokens_are_long_and_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 32 for token in tokens)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlApi]:
    api = ControlApi(str(tmp_path_factory.mktemp("guarded"))).start(TOKEN)
    yield api
    api.end()


def test_a_form_of_another_site_changes_nothing(api: ControlApi) -> None:
    """A browser sends forms, and fetches without CORS, to any address; their kinds of body are three."""
    body = b'{"name": "made-by-a-form", "a": "=b"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        origin = {"Origin": "http://example.com", "Content-Type": kind}
        assert problem_of(api.send("POST", f"{PREFIX}/topics", body, origin))["status"] == 403
        assert problem_of(api.send("POST", f"{PREFIX}/topics", body, {"Content-Type": kind}))["status"] == 415
    assert problem_of(api.send("POST", f"{PREFIX}/reset", None, {"Origin": "null"}))["status"] == 403
    assert api.done("GET", "/topics") == ["orders"]


def test_no_answer_lets_a_browser_share_it_with_another_site(api: ControlApi) -> None:
    preflight = {"Origin": "http://example.com", "Access-Control-Request-Method": "POST"}
    for answer in (api.send("OPTIONS", f"{PREFIX}/topics", None, preflight), api.ask("GET", "/topics")):
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
        assert "Set-Cookie" not in answer.headers


def test_the_token_opens_the_server_and_no_answer_has_it(guarded: ControlApi) -> None:
    assert guarded.done("GET", "/topics") == ["orders"]
    assert guarded.send("GET", "/health").status == 200
    for path in ("/metrics", f"{PREFIX}/topics", f"{PREFIX}/openapi.json", "/nothing"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \xff"}):
            assert problem_of(guarded.send("GET", path, None, headers))["status"] == 401
        assert TOKEN.encode() not in guarded.send("GET", path, None, {"Authorization": f"Bearer {TOKEN}"}).body


def test_an_unread_body_of_a_refused_request_does_not_count_as_the_next_request(
    guarded: ControlApi,
) -> None:
    smuggled = b"POST /api/v1/reset HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with guarded.connection() as connection:
        connection.request("POST", f"{PREFIX}/topics", smuggled, JSON)
        assert connection.getresponse().read()
        connection.request("GET", "/health/live")
        assert connection.getresponse().read() == b'{"is_live": true}'
