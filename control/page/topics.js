// The topics: a table to search and to sort, and how one is created.

import { get } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, field, groupLink, option, tableOf, topicLink } from "/page/parts.js";
import { ago, counted, given, kept, number, rate, shortened, size } from "/page/words.js";

const ROWS = 50;

export const title = "Topics";
export const events = ["records", "topics", "groups"];

const choice = { containing: "", start: 0, sort: "name", internal: false };
let data = { found: null, groups: [] };
let seen = "";

export async function load({ state, isForced }) {
  const wanted = JSON.stringify([state.revision, choice]);
  const isOther = isForced || seen !== wanted;
  const [found, groups] = await Promise.all([isOther ? get("/overview/topics", { ...choice, count: ROWS }) : data.found, state.group_count ? get("/overview/groups") : []]);
  if (isOther) noteRates(found);
  data = { found, groups };
  seen = wanted;
}

export function render({ state, rerender }) {
  const { found, groups } = data;
  const choose = (change) => {
    Object.assign(choice, { start: 0 }, change);
    rerender();
  };
  return [
    h("h1", { class: "hidden" }, "Topics"),
    h("section", { "aria-labelledby": "topics" },
      topicsHeading(state),
      h("div", { class: "bar" },
        h("input", { type: "search", id: "search", "aria-label": "Find topics", placeholder: "Find topics (press /)", value: choice.containing,
          oninput: (event) => choose({ containing: event.target.value }) }),
        h("label", {}, h("input", { type: "checkbox", checked: choice.internal, onchange: (event) => choose({ internal: event.target.checked }) }), " internal topics"),
        pager(found?.total ?? 0, choose)),
      found && topicTable(found, groups, state, {
        sorting: { now: choice.sort, choose: (sort) => choose({ sort }) },
        empty: choice.containing ? "No topic has this in its name." : "There is no topic yet. A producer creates one, or you do here.",
      }),
      newTopic(state)),
  ];
}

// --- the heading and the table, of which the overview shows a part

export const topicsHeading = (state) => h("h2", { id: "topics" }, "Topics ",
  h("span", { class: "quiet" }, `${counted(state.topic_count, "topic")} with ${counted(state.partition_count, "partition")}`));

const readings = new Map();
const rates = new Map();

/** The records that producers write to each topic in a second, from two readings of the counters. */
export function noteRates(found) {
  const at = performance.now();
  rates.clear();
  for (const row of found.topics) {
    const last = readings.get(row.name);
    if (last) rates.set(row.name, Math.max(row.records_in - last.count, 0) / ((at - last.at) / 1000));
    readings.set(row.name, { at, count: row.records_in });
  }
}

/** The rows of `found`, with the lag of groups. `sorting`: as that of a table. */
export function topicTable(found, groups, state, { sorting, empty = "There is no topic yet. A producer creates one, or you do in Topics." } = {}) {
  const lags = new Map();
  for (const group of groups) {
    for (const [topic, lag] of Object.entries(group.lags)) {
      if (!lags.has(topic)) lags.set(topic, []);
      lags.get(topic).push([group.name, lag]);
    }
  }
  const columns = [
    ["Topic", (row) => [topicLink(row.name), row.auto_created_by && h("span", { class: "badge", title: `A request of client ${row.auto_created_by} created it` }, "auto-created"),
      row.purged_by && h("span", { class: "badge", title: `Records go when every stage has processed them: purged by ${row.purged_by}` }, "purged"),
      row.leaderless > 0 && h("span", { class: "badge bad" }, `${row.leaderless} without leader`),
      row.under_replicated > 0 && h("span", { class: "badge bad" }, `${row.under_replicated} not in sync`)], "", "name"],
    ["Partitions", (row) => number(row.partition_count), "number", "-partition_count"],
    ["Records", (row) => number(row.records), "number", "-records"],
    ["Size on disk", (row) => size(row.size_bytes), "number", "-size_bytes"],
    ["Written, records/s", (row) => rate(rates.get(row.name) ?? 0), "number", "-records_in"],
    ["Keeps records", kept],
    ["Groups that read it", (row) => (lags.get(row.name) ?? []).map(([group, lag], at) => [at ? ", " : "", groupLink(group), lag ? ` ${counted(lag, "record")} behind` : " caught up"])],
    ["Last record", (row) => row.last && [h("span", { class: "quiet" }, ago(row.last.timestamp, state.now_ms), "  "), lastRecord(row.last)], "", "-last"],
  ];
  return tableOf("Topics", found.topics, (row) => row.name, columns, empty, sorting);
}

function lastRecord(record) {
  const key = record.key === null ? "" : `${shortened(given(record.key), 20)}: `;
  return record.value === null ? [key, h("em", {}, "tombstone")] : key + shortened(given(record.value), 40);
}

function pager(total, choose) {
  if (total <= ROWS) return "";
  const last = Math.min(choice.start + ROWS, total);
  return h("span", { class: "pager" },
    h("button", { type: "button", disabled: choice.start === 0, onclick: () => choose({ start: Math.max(choice.start - ROWS, 0) }) }, "Previous"),
    h("span", {}, `${number(choice.start + 1)}–${number(last)} of ${number(total)}`),
    h("button", { type: "button", disabled: last >= total, onclick: () => choose({ start: choice.start + ROWS }) }, "Next"));
}

function newTopic(state) {
  const name = h("input", { id: "new-topic", maxlength: 249, spellcheck: "false" });
  const partitions = h("input", { id: "new-partitions", type: "number", min: 1, value: 1 });
  const replicas = h("select", { id: "new-replicas" }, state.brokers.map((_, at) => option(at + 1, String(at + 1), at + 1 === state.brokers.length)));
  const policy = h("select", { id: "new-policy" }, option("delete", "delete by age"), option("compact", "compact: last of each key"));
  const entered = (id) => document.getElementById(id).value;
  return h("details", {}, h("summary", {}, "Create a topic"),
    h("div", { class: "form" },
      field("Name", name), field("Partitions", partitions), field("Replicas", replicas), field("Cleanup policy", policy),
      actions(action("Create topic", () => {
        if (!entered("new-topic")) throw new Error("The topic needs a name.");
        return ["POST", "/topics", { name: entered("new-topic"), partitions: Number(entered("new-partitions")),
          replication_factor: Number(entered("new-replicas")), configs: { "cleanup.policy": entered("new-policy") } }];
      }, { hint: "Creates the topic, as an administrator does", done: () => `Topic ${entered("new-topic")} is there.` }))));
}
