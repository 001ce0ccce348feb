// The first view: what is wrong or odd, the traffic, the topics, and the clients.

import { get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, copy, groupLink, link, sparkline, table, tile, topicLink } from "/page/parts.js";
import { noteRates, topicsHeading, topicTable } from "/page/topics.js";
import { counted, duration, number, rate, size, visible } from "/page/words.js";

/** Topics that are shown, the busiest. */
const ROWS = 10;
const FINDINGS_EVERY_MS = 5_000;
const HISTORY = 60;

export const title = "Overview";
export const events = ["records", "topics", "groups", "transactions", "clock", "faults", "brokers", "clients"];

let data = { findings: null, topics: null, groups: [], registry: "" };
let seen = { revision: null, findingsAt: 0, activity: "" };
const history = { records: [], bytesIn: [], bytesOut: [], requests: [], last: null, rates: {} };

let topicsAsked = null;

const askTopics = () => get("/overview/topics", { sort: "-records_in", count: ROWS });

/** Ask for what is needed anyway. */
export function early({ isForced }) {
  topicsAsked = isForced ? askTopics() : null;
  return topicsAsked;
}

export async function load({ state, isForced, shown }) {
  note(state);
  const activity = `${state.revision} ${state.traffic.requests} ${state.rule_count} ${state.held_count} ${state.brokers.map((one) => one.is_running)}`;
  const jobs = [];
  if (isForced || seen.revision !== state.revision) {
    jobs.push((topicsAsked ?? askTopics()).then((found) => {
      noteRates(found);
      data.topics = found;
    }));
    seen.revision = state.revision;
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

export function render({ state }) {
  return [
    h("h1", { class: "hidden" }, "Overview"),
    connectPart(state),
    state.topic_count || state.client_count ? worthALook() : firstSteps(state),
    trafficPart(state),
    topicsPart(state),
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
      h("li", {}, "Create a topic in ", link("/topics", "Topics"), ", or by ", h("code", {}, `kmini topic create orders:3${at}`), ". A producer creates one, too."),
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

function topicsPart(state) {
  return h("section", { "aria-labelledby": "topics" },
    topicsHeading(state),
    data.topics && topicTable(data.topics, data.groups, state),
    h("p", {}, link("/topics", state.topic_count > ROWS ? `All ${number(state.topic_count)} topics, to search and to sort →` : "Search, sort and create topics →")));
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
