"""Every view of the page over three brokers where much goes on: shown, reached by keys, accessible, and what it does.

Behind `make soak`.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kmini.broker.journal.registry_requests import RegistryAnswer, RegistryQuestion, RegistrySource, begin, end
from support.busy_cluster import BusyCluster
from support.page_views import VIEWS, open_view

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.soak

AXE = Path(__file__).resolve().parents[2] / ".peers" / "axe" / "package" / "axe.min.js"
"""The rules of axe-core, as `make axe` fetches them."""


@pytest.mark.parametrize("view", ["overview", "topics", "requests", "groups", "schemas", "faults", "cluster"])
def test_a_view_is_reached_by_keys_alone(page: Page, busy: BusyCluster, view: str) -> None:
    address, letter = VIEWS[view]
    open_view(page, busy, "/" if address != "/" else "/faults")
    page.keyboard.press("g")
    page.keyboard.press(str(letter))
    page.wait_for_selector(f'html[data-ready="{address}"]')
    assert page.evaluate("document.activeElement.id") == "main", "what is read next is the view"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", [*VIEWS])
def test_axe_finds_no_serious_violation(page: Page, busy: BusyCluster, view: str, theme: Any) -> None:
    if not AXE.exists():
        pytest.skip("there is no axe-core: make axe")
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    open_view(page, busy, VIEWS[view][0])
    for summary in page.locator("summary").all():
        summary.click()
    page.evaluate(AXE.read_text(encoding="utf-8"))  # as the browser's own tools do: the policy of the page stays
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.parametrize("view", [*VIEWS])
def test_every_control_of_a_view_is_reached_by_tab(page: Page, busy: BusyCluster, view: str) -> None:
    open_view(page, busy, VIEWS[view][0])
    page.keyboard.press("d")  # the views refresh while one goes through them, and the focus stays where it is
    wanted = page.evaluate(
        "[...document.querySelectorAll('a[href], button:not(:disabled), input, select, textarea, summary')]"
        ".filter((one) => one.checkVisibility()).length"
    )
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for number in range(wanted + 60):
        page.keyboard.press("Tab")
        mark = page.evaluate(
            "(() => { const one = document.activeElement; if (one === document.body) return null;"
            f" one.dataset.reached ??= '{number}'; return one.dataset.reached; }})()"
        )
        if mark is None:
            break
        reached.add(mark)
    assert len(reached) >= wanted


def test_the_log_of_a_compacted_topic_is_drawn_and_compacted_by_a_click(
    page: Page, busy: BusyCluster, expect: Any
) -> None:
    open_view(page, busy, "/topics/profiles")
    drawing = page.get_by_role("img")
    expect(drawing).to_have_attribute("aria-label", re.compile("segments"))
    expect(page.locator(".legend")).to_contain_text("dirty")
    expect(page.locator("svg text", has_text="leads")).to_have_count(1)
    page.get_by_role("button", name="Compact", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Compacted")
    expect(page.locator(".legend")).not_to_contain_text("dirty:")


def test_a_record_is_written_by_hand_found_by_its_key_and_shown_as_json_and_hex(
    page: Page, busy: BusyCluster, expect: Any
) -> None:
    open_view(page, busy, "/topics/orders")
    page.get_by_label("Key", exact=True).fill("by hand")
    page.get_by_label("Value", exact=True).fill('{"total": 12345678901234567890}')
    page.get_by_label("Headers, a line").fill("trace=1=2")
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Written")
    (record,) = busy.cluster.topic("orders").records(key=b"by hand")
    assert (record.value, record.headers) == (b'{"total": 12345678901234567890}', (("trace", b"1=2"),))
    page.get_by_label("Find records").fill("BY HAND")
    rows = page.get_by_role("table", name="Records").locator("tbody tr")
    expect(rows).to_have_count(1)
    page.get_by_label("Show as").select_option("json")
    total = rows.get_by_text('"total": 12345678901234567890')
    expect(total).to_be_visible()
    rows.get_by_text("{total}").click()
    expect(total).to_be_hidden()
    busy.cluster.produce("orders", b"another")  # which shows the table anew
    busy.cluster.produce("orders", b'["unfolded"]', key=b"by hand")
    expect(rows).to_have_count(2)
    expect(rows.get_by_text("unfolded")).to_be_visible()
    expect(total).to_be_hidden()
    page.get_by_label("Find records").fill("12345678901234567890")
    expect(rows).to_have_count(1)
    page.get_by_label("Show as").select_option("hex")
    expect(rows).to_contain_text("7b 22 74 6f 74 61 6c")


def test_records_arrive_while_one_looks(page: Page, busy: BusyCluster, expect: Any) -> None:
    with page.expect_request("**/api/v1/events?types=records%2Ctopics&topic=orders"):
        open_view(page, busy, "/topics/orders")
    busy.cluster.produce("orders", b"just arrived", key=b"late")
    expect(page.get_by_role("table", name="Records")).to_contain_text("just arrived")
    expect(page.locator("tr.fresh")).to_have_count(1)


def test_a_long_value_is_cut_and_shown_whole_on_demand(page: Page, busy: BusyCluster, expect: Any) -> None:
    busy.cluster.produce("payments", b"a" * 300_000 + b"the end", key=b"long")
    open_view(page, busy, "/topics/payments")
    table = page.get_by_role("table", name="Records")
    expect(table).not_to_contain_text("the end")
    assert len(table.inner_text()) < 20_000
    page.get_by_role("button", name=re.compile("show all 293")).click()
    expect(page.get_by_role("dialog")).to_contain_text("the end")


def test_a_rule_is_set_by_the_form_as_the_python_beside_it_would(page: Page, busy: BusyCluster, expect: Any) -> None:
    open_view(page, busy, "/faults")
    page.get_by_label("When a request is").fill("EndTxn")
    page.get_by_label("of transactional id").fill("payments-*")
    page.locator("#rule-act").select_option("hold")
    page.get_by_label("Name").fill("by hand")
    shown = 'broker.faults.on("EndTxn", transactional_id="payments-*", name="by hand").once().hold()'
    expect(page.locator("#rule-python")).to_have_text(shown)
    page.get_by_role("button", name="Set the rule", exact=True).click()
    expect(page.get_by_role("table", name="Fault rules")).to_contain_text("by hand")
    rule = next(one for one in busy.server.managed.rules.rules if one.rule.name == "by hand")
    with_python = eval(shown.replace("broker", "cluster").replace("by hand", "as python"), {"cluster": busy.cluster})
    assert {**with_python.to_json(), "name": "by hand"} == json.loads(json.dumps(rule.rule.to_json()))
    with_python.remove()
    row = page.get_by_role("row", name=re.compile("by hand"))
    row.get_by_role("button", name="Remove", exact=True).click()
    expect(row).to_have_count(0)


def test_a_rule_about_the_schema_registry_has_its_own_conditions(page: Page, busy: BusyCluster, expect: Any) -> None:
    open_view(page, busy, "/faults")
    page.get_by_label("When a request is").fill("registry")
    expect(page.get_by_label("of topic")).to_have_count(0)
    page.get_by_label("of subject").fill("orders-*")
    page.get_by_label("of method").fill("POST")
    page.locator("#rule-act").select_option("apply_then_error")
    page.locator("#rule-detail").fill("50002")
    shown = 'broker.faults.on("registry", subject="orders-*", method="POST").once().apply_then_error("50002")'
    expect(page.locator("#rule-python")).to_have_text(shown)
    page.get_by_role("button", name="Set the rule").click()
    row = page.get_by_role("row", name=re.compile("registry error 50002"))
    expect(row).to_contain_text("registry, method=POST, subject=orders-*")
    row.get_by_role("button", name="Remove", exact=True).click()
    expect(row).to_have_count(0)


def test_a_request_to_the_schema_registry_is_shown_and_becomes_a_rule(
    page: Page, busy: BusyCluster, expect: Any
) -> None:
    journal = busy.server.any_broker.services.journal
    assert journal is not None
    asked = RegistryQuestion("POST", "/subjects/orders-<b>/versions", "orders-<b>")

    async def write() -> None:
        entry = begin(journal, RegistrySource("curl/8", "127.0.0.1:5000", "User:ANONYMOUS"), asked, 9)
        end(journal, entry, RegistryAnswer(409, 40901, "no <i>price</i>", 30))

    busy.server.run(write())
    open_view(page, busy, "/requests")
    page.get_by_label("Filter requests by words").fill("registry curl/8")
    rows = page.get_by_role("table", name="Requests").locator("tbody tr")
    expect(rows.first).to_contain_text("POST /subjects/orders-<b>/versions  no <i>price</i>")
    expect(rows.first).to_contain_text("40901")
    rows.first.get_by_role("link", name="set a fault").click()
    expect(page.get_by_label("of subject")).to_have_value("orders-<b>")
    expect(page.get_by_label("of method")).to_have_value("POST")


def test_a_rule_begins_with_the_request_that_one_clicks(page: Page, busy: BusyCluster, expect: Any) -> None:
    busy.shop.produce("orders")
    open_view(page, busy, "/requests")
    page.get_by_label("Filter requests by words").fill("produce web-shop -order-")
    rows = page.get_by_role("table", name="Requests").locator("tbody tr")
    expect(rows.first).to_contain_text("Produce v9")
    rows.first.get_by_role("link", name="set a fault").click()
    expect(page.get_by_label("of client id")).to_have_value("web-shop")
    expect(page.get_by_label("of topic")).to_have_value("orders")


def test_the_clock_moves_by_a_click(page: Page, busy: BusyCluster, expect: Any) -> None:
    open_view(page, busy, "/faults")
    before = busy.cluster.clock.now_ms()
    page.get_by_role("button", name="+1 h", exact=True).click()
    expect(page.get_by_role("banner")).to_contain_text("1 h ahead")
    assert busy.cluster.clock.now_ms() - before >= 3_600_000
    busy.cluster.clock.turn_back("1h")


def test_the_log_shows_tombstones_with_their_delete_horizons(page: Page, busy: BusyCluster, expect: Any) -> None:
    busy.cluster.create_topic("deleted", config={"cleanup.policy": "compact"})
    topic = busy.cluster.topic("deleted")
    topic.produce(None, key=b"gone")
    topic.produce(b"stays", key=b"kept")
    open_view(page, busy, "/topics/deleted")
    expect(page.locator(".legend")).to_contain_text("1 tombstone; 1 of them get")
    topic.roll()
    topic.compact()
    page.reload()
    page.wait_for_selector('html[data-ready="/topics/deleted"]')
    expect(page.locator(".legend")).to_contain_text(re.compile("the first delete horizon passes in (23 h|1 d)"))
    expect(page.locator("svg .tombstone title")).to_contain_text(re.compile("delete horizon in (23 h|1 d)"))


def test_two_hundred_segments_are_drawn_to_scale_within_the_picture(page: Page, busy: BusyCluster, expect: Any) -> None:
    busy.cluster.create_topic("many")
    topic = busy.cluster.topic("many")
    for number in range(200):
        topic.produce(b"%d" % number)
        topic.roll()
    open_view(page, busy, "/topics/many")
    boxes = page.locator("svg .segment")
    expect(boxes).to_have_count(201)
    expect(page.locator(".legend")).to_contain_text("201 segments")
    places = boxes.evaluate_all(
        "(all) => all.map((one) => [Number(one.getAttribute('x')), Number(one.getAttribute('width'))])"
    )
    assert all(x + width <= after for (x, width), (after, _) in itertools.pairwise(places)), "none hides another"
    assert places[-1][0] + places[-1][1] <= 1_001


def test_a_group_tells_which_member_its_rebalance_waits_for(page: Page, busy: BusyCluster, expect: Any) -> None:
    group = busy.cluster.group("waiting")
    from support.small_client import SmallClient

    busy.cluster.group("waiting").commit({("orders", 0): 1})
    address = busy.cluster.bootstrap_servers.split(",")[busy.cluster.coordinator("waiting") - 1]
    with SmallClient(address, "first") as first, SmallClient(address, "second") as second:
        first.subscribe("waiting", "orders")
        second.join("waiting", "orders", waits=False)
        open_view(page, busy, "/groups/waiting")
        expect(page.locator(".waits")).to_have_text(re.compile("^waits for first to join again; .* left, then"))
        expect(page.get_by_role("row", name=re.compile("^first"))).to_contain_text("awaited")
        expect(page.get_by_role("img", name=re.compile("^Lag over time"))).to_be_visible()
        assert [one.client_id for one in group.describe().members] == ["first", "second"]


def test_a_share_group_shows_what_it_has_in_flight(page: Page, busy: BusyCluster, expect: Any) -> None:
    from support.small_client import SmallClient

    busy.cluster.create_topic("jobs")
    addresses = busy.cluster.bootstrap_servers.split(",")
    coordinator, leader = busy.cluster.coordinator("workers"), busy.cluster.leader("jobs")
    with SmallClient(addresses[coordinator - 1], "worker") as worker, SmallClient(addresses[leader - 1], "w") as reader:
        worker.share("workers", "jobs")
        reader.member_id, reader.assigned = worker.member_id, worker.assigned
        reader.acquire("workers")
        for _ in range(3):
            busy.cluster.produce("jobs", b"job")
        assert reader.acquire("workers") == [(0, 2, 1)]
        reader.acquire("workers", (0, 0, 1), (2, 2, 1))
        open_view(page, busy, "/groups/workers")
        row = page.get_by_role("table", name="Offsets").locator("tbody tr")
        expect(row).to_contain_text(re.compile(r"jobs-0.*1.*3.*1 record.*1 ACQUIRED by .*, delivered 1 time"))
        expect(row).to_contain_text("2 ACKNOWLEDGED, delivered 1 time")


HOSTILE = """<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>"""


def test_hostile_names_keys_values_and_headers_are_text(page: Page, busy: BusyCluster, expect: Any) -> None:
    cluster = busy.cluster
    cluster.topic("payments").produce(
        f"{HOSTILE}\u202etxt\0".encode(), key=HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode())], partition=0
    )
    cluster.group(HOSTILE).commit({("orders", 0): 1})
    rule = {"name": HOSTILE, "when": {"api": ["Fetch"], "client_id": HOSTILE}, "do": [{"delay": "1ms"}]}
    cluster.faults.load([rule])
    from support.small_client import SmallClient

    with SmallClient(cluster.bootstrap_servers.split(",")[0], HOSTILE) as client:
        client.metadata("orders")
        for address in ("/", "/requests", "/groups", f"/groups/{HOSTILE}", "/faults", "/topics/payments", "/cluster"):
            quoted = page.evaluate("(text) => text.split('/').map(encodeURIComponent).join('/')", address)
            if address.startswith("/groups/"):
                quoted = "/groups/" + page.evaluate("encodeURIComponent", HOSTILE)
            open_view(page, busy, quoted)
            if address != "/cluster":
                expect(page.locator("main")).to_contain_text("<script>")
            assert page.locator("img, main script").count() == 0
            assert page.title() != "owned"
    open_view(page, busy, "/topics/payments")
    expect(page.locator("main")).to_contain_text("\\u202e")
    cluster.faults.clear()
