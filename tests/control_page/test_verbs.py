"""What the buttons of the page say, ask and do, over three brokers where much goes on.

Behind `make soak`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from support.busy_cluster import BusyCluster
from support.page_views import VIEWS, agree, open_view

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.soak


def test_the_bootstrap_servers_are_there_to_copy(page: Page, busy: BusyCluster, expect: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_view(page, busy, "/")
    page.get_by_role("button", name="Copy bootstrap.servers").click()
    expect(page.get_by_role("status")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == busy.cluster.bootstrap_servers


@pytest.mark.parametrize("view", [*VIEWS])
def test_every_button_that_asks_for_a_change_says_what_will_happen(page: Page, busy: BusyCluster, view: str) -> None:
    open_view(page, busy, VIEWS[view][0])
    silent = page.evaluate(
        "[...document.querySelectorAll('main .actions button')].filter((one) => !one.title.includes(' '))"
        ".map((one) => one.textContent)"
    )
    assert silent == []


def test_keys_show_the_hint_of_a_button(page: Page, busy: BusyCluster, expect: Any) -> None:
    open_view(page, busy, "/topics/profiles")
    page.get_by_role("button", name="Compact", exact=True).focus()
    page.keyboard.press("Tab")
    expect(page.locator("#hint")).to_have_text("Seals the active segment and begins a new one")


def test_a_destructive_verb_asks_and_no_leaves_all_as_it_is(page: Page, busy: BusyCluster, expect: Any) -> None:
    before = busy.cluster.topic("orders").offsets()[0].log_start_offset
    open_view(page, busy, "/topics/orders")
    page.get_by_role("button", name="Delete records", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Delete records of orders-0 for good?")
    page.keyboard.press("Enter")  # "No" has the focus
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert busy.cluster.topic("orders").offsets()[0].log_start_offset == before


def test_a_verb_that_does_not_apply_is_not_shown_or_says_why(page: Page, busy: BusyCluster, expect: Any) -> None:
    busy.cluster.create_topic("empty", config={"cleanup.policy": "delete"})
    open_view(page, busy, "/topics/empty")
    expect(page.get_by_role("button", name="Compact", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Roll", exact=True).press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The active segment is empty")


def test_a_paused_broker_offers_to_go_on_and_no_second_pause(page: Page, busy: BusyCluster, expect: Any) -> None:
    open_view(page, busy, "/cluster")
    row = page.get_by_role("row", name=re.compile("^broker 3"))
    row.get_by_role("button", name="Pause broker 3").click()
    expect(row).to_contain_text("paused")
    expect(row.get_by_role("button", name="Pause broker 3")).to_have_count(0)
    row.get_by_role("button", name="Go on broker 3").click()
    expect(row).to_contain_text("runs")


def test_a_rule_that_has_acted_as_often_as_it_may_is_marked_and_begins_again(
    page: Page, busy: BusyCluster, expect: Any
) -> None:
    rule = {"name": "once", "when": {"api": ["Metadata"]}, "which": {"times": 1}, "do": [{"delay": "1ms"}]}
    busy.cluster.faults.load([rule])
    busy.shop.metadata("orders")
    open_view(page, busy, "/faults")
    row = page.get_by_role("row", name=re.compile("^once"))
    expect(row).to_contain_text("1 of 1 hit")
    expect(row).to_contain_text("used up")
    row.get_by_role("button", name="Again: once").click()
    expect(row).to_contain_text("0 of 1 hit")
    expect(row).not_to_contain_text("used up")
    row.get_by_role("button", name="Remove", exact=True).click()


def test_what_is_due_next_happens_when_the_clock_moves_there(page: Page, busy: BusyCluster, expect: Any) -> None:
    busy.cluster.create_topic("short", config={"retention.ms": 60_000})
    busy.cluster.produce("short", b"gone soon")
    open_view(page, busy, "/faults")
    row = page.get_by_role("table", name="Due next").locator("tr", has_text="segment of short-0")
    expect(row).to_contain_text("checked within 5 m")
    row.get_by_role("button", name=re.compile("^Move there")).click()
    expect(page.get_by_role("status")).to_contain_text("was moved")
    assert busy.cluster.records("short") == []
    expect(row).to_have_count(0)
    busy.cluster.clock.turn_back(busy.cluster.describe().ahead_ms)


def test_a_request_is_copied_as_a_fault_rule(page: Page, busy: BusyCluster, expect: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    busy.shop.produce("orders")
    open_view(page, busy, "/requests")
    page.get_by_label("Filter requests by words").fill("produce web-shop -order-")
    page.get_by_role("button", name="Copy as fault rule: Produce").first.click()
    expect(page.get_by_role("status")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == (
        'broker.faults.on("Produce", topic="orders", client_id="web-shop").once().error("NOT_LEADER_OR_FOLLOWER")'
    )


def test_copy_as_curl_is_the_request_of_the_button(page: Page, busy: BusyCluster, expect: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_view(page, busy, "/topics/profiles")
    page.get_by_role("button", name=re.compile("Copy as curl: Compact, Roll")).click()
    copies = page.get_by_role("dialog").get_by_role("button", name="Copy as curl: Roll")
    copies.click()
    expect(copies).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == (
        f"curl -X POST '{busy.server.url}/api/v1/topics/profiles/roll' -H 'Content-Type: application/json' -d "
        """'{"partition":0}'"""
    )


def test_a_setting_is_changed_by_the_form(page: Page, busy: BusyCluster, expect: Any) -> None:
    open_view(page, busy, "/topics/payments")
    page.locator("#config-name").select_option("retention.ms")
    page.get_by_label("New value").fill("86400000")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("is changed")
    expect(page.get_by_role("table", name="Settings")).to_contain_text("86400000")


def test_offsets_are_reset_and_a_refusal_says_why(page: Page, busy: BusyCluster, expect: Any) -> None:
    busy.cluster.group("audit").commit({("orders", 0): 7})
    open_view(page, busy, "/groups/audit")
    page.locator("summary", has_text="Reset offsets").click()
    page.get_by_role("button", name="Reset offsets", exact=True).click()
    agree(page, "Reset offsets")
    expect(page.get_by_role("status")).to_contain_text("are reset")
    assert busy.cluster.group("audit").offsets()["orders", 0] == 0


def test_a_broker_is_killed_and_revived_by_clicks(page: Page, busy: BusyCluster, expect: Any) -> None:
    open_view(page, busy, "/cluster")
    row = page.get_by_role("row", name=re.compile("^broker 3"))
    row.get_by_role("button", name="Kill broker 3").click()
    agree(page, "Kill")
    expect(row).to_contain_text("does not run")
    expect(page.get_by_role("table", name="Leaders")).to_contain_text("not in sync")
    expect(row.get_by_role("button", name=re.compile("Kill|Stop|Pause|Cut off"))).to_have_count(0)
    row.get_by_role("button", name="Start broker 3").click()
    expect(row).to_contain_text("runs")
    expect(page.get_by_role("table", name="Leaders")).not_to_contain_text("not in sync", timeout=20_000)
