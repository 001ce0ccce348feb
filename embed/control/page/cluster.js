// Brokers to kill and to revive, where leaders and in-sync replicas are, and the cleaner.

import { get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, field, option, table, topicLink } from "/page/parts.js";
import { duration, number, size, visible } from "/page/words.js";

export const title = "Cluster";
export const events = ["brokers", "topics", "records"];

const MOST_SHOWN = 200;

const choice = { topic: "" };
let data = { names: [], topic: null, cleaner: [], revision: null };

export async function load({ state, isForced }) {
  if (isForced || data.revision !== state.revision) {
    const running = state.brokers.filter((one) => one.is_running);
    const [topics, ...cleaners] = await Promise.all([
      get("/overview/topics", { count: MOST_SHOWN, busiest: true, internal: true }),
      ...running.map((one) => get(path`/brokers/${one.number}/cleaner`).then((found) => found.map((row) => ({ ...row, broker: one.number })))),
    ]);
    data.names = topics.topics.map((one) => one.name).sort();
    data.cleaner = cleaners.flat().filter((one) => !one.partition.startsWith("__") || one.clean_bytes + one.cleanable_bytes > 0).sort((one, other) => other.dirty_ratio - one.dirty_ratio);
    data.revision = state.revision;
  }
  if (!data.names.includes(choice.topic)) choice.topic = data.names.find((one) => !one.startsWith("__")) ?? data.names[0] ?? "";
  data.topic = choice.topic ? await get(path`/topics/${choice.topic}`) : null;
}

export function render({ state, rerender }) {
  return [h("h1", {}, state.brokers.length > 1 ? "Cluster" : "Broker"), brokersPart(state), leadersPart(state, rerender), cleanerPart(state)];
}

function brokersPart(state) {
  const isCluster = state.brokers.length > 1;
  const to = (one, verb) => path`/brokers/${one.number}/` + verb;
  return h("section", { "aria-labelledby": "brokers" },
    h("h2", { id: "brokers" }, "Brokers"),
    table("Brokers", ["Broker", "State", "Address", ["Leads", "number"], ["Has replicas", "number"], ["Not in sync", "number"], ""], state.brokers.map((one) => ({
      key: String(one.number),
      cells: [
        h("strong", {}, `broker ${one.number}`),
        h("span", { class: `badge ${one.is_running && !one.is_suspended ? "good" : "bad"}` }, one.is_suspended ? "paused" : one.is_running ? "runs" : "does not run"),
        one.address || "—", number(one.leads), number(one.replicas), one.out_of_sync ? h("strong", { class: "bad" }, number(one.out_of_sync)) : "0",
        h("div", { class: "buttons" }, isCluster ? clusterActions(one, to) : action("Crash and start again", () => ["POST", "/crash", {}], { danger: true, title: "As kill -9 does, and a start on the same port", done: "The broker crashed, and runs again." })),
      ],
    })), "No broker is known."));
}

function clusterActions(one, to) {
  if (!one.is_running) return [action("Start", () => ["POST", to(one, "restart"), {}], { done: `Broker ${one.number} runs again, with its data.` })];
  return [
    action("Kill", () => ["POST", to(one, "kill"), {}], { danger: true, title: "End it as kill -9 does", done: `Broker ${one.number} is dead.` }),
    action("Stop", () => ["POST", to(one, "stop"), {}], { title: "Stop it cleanly; its leaderships move first", done: `Broker ${one.number} has stopped.` }),
    action("Pause", () => ["POST", to(one, "pause"), {}], { title: "As SIGSTOP does: its clients wait", done: `Broker ${one.number} is paused.` }),
    action("Cut off", () => ["POST", to(one, "cut-off"), {}], { title: "Cut its network to the other brokers", done: `Broker ${one.number} is cut off from the others.` }),
    action("Reconnect", () => ["POST", to(one, "reconnect"), {}], { title: "End a pause or a cut", done: `Broker ${one.number} is back.` }),
  ];
}

function leadersPart(state, rerender) {
  const running = state.brokers.filter((one) => one.is_running).map((one) => one.number);
  const rows = (data.topic?.partitions ?? []).slice(0, MOST_SHOWN).map((one) => ({
    key: String(one.partition),
    cells: [
      `${choice.topic}-${one.partition}`, one.leader < 0 ? h("strong", { class: "bad" }, "no leader") : `broker ${one.leader}`,
      one.replicas.map((broker, at) => [at ? " " : "", h("span", { class: one.isr.includes(broker) ? "badge good" : "badge bad" }, `broker ${broker}: ${one.isr.includes(broker) ? "in sync" : "not in sync"}`)]),
      h("div", { class: "buttons" }, one.replicas.filter((broker) => broker !== one.leader && one.isr.includes(broker) && running.includes(broker)).map((broker) =>
        action(`Make broker ${broker} lead`, () => ["POST", path`/topics/${choice.topic}/leader`, { partition: one.partition, to: broker }], { done: `Broker ${broker} leads.` }))),
    ],
  }));
  return h("section", { "aria-labelledby": "leaders" },
    h("h2", { id: "leaders" }, "Leaders and replicas in sync"),
    h("div", { class: "bar" }, field("Topic", h("select", { id: "topic", onchange: (event) => {
      choice.topic = event.target.value;
      rerender();
    } }, data.names.map((name) => option(name, visible(name), name === choice.topic)))), choice.topic && topicLink(choice.topic, "its log and records")),
    table("Leaders", ["Partition", "Leader", "Replicas", "Move the leader"], rows, "There is no topic."));
}

function cleanerPart(state) {
  return h("section", { "aria-labelledby": "cleaner" },
    h("h2", { id: "cleaner" }, "Log cleaner ", h("span", { class: "quiet" }, "the compacted partitions, the dirtiest first")),
    table("Log cleaner", ["Partition", "Broker", ["Dirty", "number"], ["Clean", "number"], ["Dirty ratio", "number"], "Waits longer than max.compaction.lag.ms", "Uncleanable"],
      data.cleaner.slice(0, MOST_SHOWN).map((one) => ({
        key: `${one.broker} ${one.partition}`,
        cells: [one.partition, String(one.broker), size(one.cleanable_bytes), size(one.clean_bytes), one.dirty_ratio.toFixed(2), one.delay_ms ? `for ${duration(one.delay_ms)}` : "no",
          one.uncleanable ? h("strong", { class: "bad" }, visible(one.uncleanable)) : "no"],
      })), "No topic is compacted."));
}
