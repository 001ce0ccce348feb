// The first view: what is wrong or odd, the traffic, the topics, and the clients.

import { get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, copy, field, groupLink, link, option, sparkline, table, tile, topicLink } from "/page/parts.js";
import { ago, counted, duration, given, kept, number, rate, shortened, size, visible } from "/page/words.js";

const ROWS = 50;
const FINDINGS_EVERY_MS = 5_000;
const HISTORY = 60;

export const title = "Overview";
export const events = ["records", "topics", "groups", "transactions", "clock", "faults", "brokers", "clients"];

const choice = { containing: "", start: 0, busiest: false, internal: false };
let data = { findings: null, topics: null, groups: [], registry: "" };
let seen = { revision: null, choice: "", findingsAt: 0, activity: "" };
const history = { records: [], bytesIn: [], bytesOut: [], requests: [], last: null, rates: {}, inOf: new Map(), topicRates: new Map() };

let topicsAsked = null;

const askTopics = () => get("/overview/topics", { ...choice, count: ROWS });

/** Ask for what is needed anyway. */
export function early({ isForced }) {
  topicsAsked = isForced ? askTopics() : null;
  return topicsAsked;
}

export async function load({ state, isForced, shown }) {
  note(state);
  const wanted = JSON.stringify(choice);
  const activity = `${state.revision} ${state.traffic.requests} ${state.rule_count} ${state.held_count} ${state.brokers.map((one) => one.is_running)}`;
  const jobs = [];
  if (isForced || seen.revision !== state.revision || seen.choice !== wanted) {
    jobs.push((topicsAsked ?? askTopics()).then((found) => {
      noteTopics(found);
      data.topics = found;
    }));
    seen.revision = state.revision;
    seen.choice = wanted;
  }
  if (seen.activity !== activity && (isForced || Date.now() - seen.findingsAt > FINDINGS_EVERY_MS)) {
    seen.findingsAt = Date.now();
    seen.activity = activity;
    askFindings(state).then(shown, () => (seen.activity = "")); // the next look asks again
  }
  await Promise.all(jobs);
}

/** These take longer, and the topics need not wait for them. */
async function askFindings(state) {
  const [findings, groups, about] = await Promise.all([get("/overview/findings"), state.group_count ? get("/overview/groups") : [], get("")]);
  data.findings = findings;
  data.groups = groups;
  data.registry = about.registry_port ? `${location.protocol}//${location.hostname}:${about.registry_port}` : "";
}

/** The rates, from two readings of the counters. */
function note(state) {
  const { traffic } = state;
  const at = performance.now();
  const last = history.last;
  history.last = { at, traffic };
  if (!last || at - last.at < 500) {
    if (last) history.last = last;
    return;
  }
  const per = (name) => Math.max(traffic[name] - last.traffic[name], 0) / ((at - last.at) / 1000);
  for (const [list, name] of [["records", "records_in"], ["bytesIn", "bytes_in"], ["bytesOut", "bytes_out"], ["requests", "requests"]]) {
    history.rates[list] = per(name);
    history[list].push(history.rates[list]);
    if (history[list].length > HISTORY) history[list].shift();
  }
}

function noteTopics(found) {
  const at = performance.now();
  history.topicRates.clear();
  for (const row of found.topics) {
    const last = history.inOf.get(row.name);
    if (last) history.topicRates.set(row.name, Math.max(row.records_in - last.count, 0) / ((at - last.at) / 1000));
    history.inOf.set(row.name, { at, count: row.records_in });
  }
}

export function render({ state, rerender }) {
  return [
    h("h1", { class: "hidden" }, "Overview"),
    connectPart(state),
    state.topic_count || state.client_count ? worthALook() : firstSteps(state),
    trafficPart(state),
    topicsPart(state, rerender),
    clientsPart(state),
  ];
}

const VIEWS = {
  topic: topicLink,
  group: groupLink,
  rule: (name) => link("/faults", `fault rule '${name}'`),
  broker: (name) => link("/cluster", `broker ${name}`),
  transaction: () => link("/groups", "open transactions"),
};

function worthALook() {
  const found = data.findings?.findings ?? [];
  return h("section", { "aria-labelledby": "look", class: found.length ? "look" : "look fine" },
    h("h2", { id: "look" }, "Worth a look"),
    found.length
      ? h("ul", {}, found.map((one) => h("li", {}, h("span", {}, visible(one.text)), one.kind && h("span", { class: "where" }, VIEWS[one.kind](one.name), " →"))))
      : h("p", {}, data.findings ? "Nothing looks wrong." : "Looking …"));
}

/** What to do with a broker that has nothing yet. */
function firstSteps(state) {
  const address = state.brokers.map((one) => one.address).filter(Boolean)[0] ?? "localhost:9092";
  const at = address === "127.0.0.1:9092" || address === "localhost:9092" ? "" : ` -b ${address}`;
  return h("section", { "aria-labelledby": "first", class: "look fine" },
    h("h2", { id: "first" }, "First steps"),
    h("ol", {},
      h("li", {}, "Give your service the value of ", h("code", {}, "bootstrap.servers"), " above."),
      h("li", {}, "Create a topic below, or by ", h("code", {}, `kmini topic create orders:3${at}`), ". A producer creates one, too."),
      h("li", {}, "Write and read: ", h("code", {}, `echo hello | kmini produce orders${at}`), ", ", h("code", {}, `kmini consume orders${at}`), ".")));
}

/** What a client's configuration needs. */
function connectPart(state) {
  const addresses = state.brokers.map((one) => one.address).filter(Boolean).join(",");
  const settings = [["bootstrap.servers", addresses], ["schema.registry.url", data.registry]].filter(([, value]) => value);
  if (!settings.length) return "";
  return h("section", { "aria-labelledby": "connect", class: "connect" }, h("h2", { id: "connect" }, "Connect a client"),
    h("dl", {}, settings.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("code", { id: name }, value), " ",
      h("button", { type: "button", title: `Copies the value of ${name}, for the configuration of a client`, "aria-label": `Copy ${name}`, onclick: () => copy(value, name) }, "Copy"))))));
}

function trafficPart(state) {
  const { rates } = history;
  const errors = data.findings?.errors ?? [];
  const sum = errors.reduce((all, one) => all + one.times, 0);
  return h("section", { "aria-labelledby": "traffic" },
    h("h2", { id: "traffic" }, "Traffic"),
    h("dl", { class: "tiles" },
      tile("Producers wrote", [sparkline(history.records), `${rate(rates.records ?? 0)} records/s`], `${counted(state.traffic.records_in, "record")} since the start`),
      tile("Bytes from producers", [sparkline(history.bytesIn), `${size(rates.bytesIn ?? 0)}/s`]),
      tile("Bytes to consumers", [sparkline(history.bytesOut), `${size(rates.bytesOut ?? 0)}/s`]),
      tile("Requests answered", [sparkline(history.requests), `${rate(rates.requests ?? 0)} requests/s`],
        data.findings?.slow_ms ? `99 % within ${data.findings.slow_ms.toFixed(1)} ms` : ""),
      tile("Answered with an error", link("/requests", counted(sum, "error"), sum ? "bad" : undefined),
        `in the last ${counted(data.findings?.request_count ?? 0, "request")}`)),
    errors.length > 0 && h("ul", { class: "errors" }, errors.slice(0, 5).map((one) => h("li", {}, h("code", {}, one.error),
      ` ${one.times === 1 ? "once" : `${number(one.times)} times`}, as the answer to ${one.api}`, one.rules.length ? [", by ", link("/faults", `fault rule '${one.rules.join("', '")}'`)] : ""))));
}

function topicsPart(state, rerender) {
  const found = data.topics;
  const lags = new Map();
  for (const group of data.groups) {
    for (const [topic, lag] of Object.entries(group.lags)) {
      if (!lags.has(topic)) lags.set(topic, []);
      lags.get(topic).push([group.name, lag]);
    }
  }
  const choose = (change) => {
    Object.assign(choice, { start: 0 }, change);
    rerender();
  };
  const rows = (found?.topics ?? []).map((row) => ({
    key: row.name,
    cells: [
      [topicLink(row.name), row.auto_created_by && h("span", { class: "badge", title: `A request of client ${row.auto_created_by} created it` }, "auto-created"),
        row.leaderless > 0 && h("span", { class: "badge bad" }, `${row.leaderless} without leader`),
        row.under_replicated > 0 && h("span", { class: "badge bad" }, `${row.under_replicated} not in sync`)],
      number(row.partition_count),
      number(row.records),
      size(row.size_bytes),
      rate(history.topicRates.get(row.name) ?? 0),
      kept(row),
      (lags.get(row.name) ?? []).map(([group, lag], at) => [at ? ", " : "", groupLink(group), lag ? ` ${counted(lag, "record")} behind` : " caught up"]),
      row.last && [h("span", { class: "quiet" }, ago(row.last.timestamp, state.now_ms), "  "), lastRecord(row.last)],
    ],
  }));
  return h("section", { "aria-labelledby": "topics" },
    h("h2", { id: "topics" }, "Topics ", h("span", { class: "quiet" }, `${counted(state.topic_count, "topic")} with ${counted(state.partition_count, "partition")}`)),
    h("div", { class: "bar" },
      h("input", { type: "search", id: "search", "aria-label": "Find topics", placeholder: "Find topics (press /)", value: choice.containing,
        oninput: (event) => choose({ containing: event.target.value }) }),
      h("label", {}, h("input", { type: "checkbox", checked: choice.busiest, onchange: (event) => choose({ busiest: event.target.checked }) }), " busiest first"),
      h("label", {}, h("input", { type: "checkbox", checked: choice.internal, onchange: (event) => choose({ internal: event.target.checked }) }), " internal topics"),
      pager(found?.total ?? 0, rerender)),
    found && table("Topics", ["Topic", ["Partitions", "number"], ["Records", "number"], ["Size on disk", "number"], ["Written, records/s", "number"], "Keeps records", "Groups that read it", "Last record"],
      rows, choice.containing ? "No topic has this in its name." : "There is no topic yet. A producer creates one, or you do here."),
    newTopic(state));
}

function lastRecord(record) {
  const key = record.key === null ? "" : `${shortened(given(record.key), 20)}: `;
  return record.value === null ? [key, h("em", {}, "tombstone")] : key + shortened(given(record.value), 40);
}

function pager(total, rerender) {
  if (total <= ROWS) return "";
  const go = (start) => () => {
    choice.start = start;
    rerender();
  };
  const last = Math.min(choice.start + ROWS, total);
  return h("span", { class: "pager" },
    h("button", { type: "button", disabled: choice.start === 0, onclick: go(Math.max(choice.start - ROWS, 0)) }, "Previous"),
    h("span", {}, `${number(choice.start + 1)}–${number(last)} of ${number(total)}`),
    h("button", { type: "button", disabled: last >= total, onclick: go(choice.start + ROWS) }, "Next"));
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

function clientsPart(state) {
  const rows = state.clients.map((client) => ({
    key: client.address,
    cells: [
      client.client_id ? visible(client.client_id) : h("em", {}, "no client id"),
      visible(client.software) || "—",
      client.address,
      duration(state.now_ms - client.since_ms),
      visible(client.waits_for) || "—",
      `broker ${client.broker}`,
      client.client_id && actions(action("Disconnect", () => ["DELETE", path`/clients/${client.client_id}`], { hint: "Closes every connection of this client id; most clients connect again at once", done: (count) => `Ended ${counted(count, "connection")}.` })),
    ],
  }));
  return h("section", { "aria-labelledby": "clients" },
    h("h2", { id: "clients" }, "Clients ", h("span", { class: "quiet" }, counted(state.client_count, "connection"))),
    table("Clients", ["Client", "Software", "From", ["Connected for", "number"], "Waits for", "Broker", ""], rows, "No client is connected."));
}
