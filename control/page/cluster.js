// Brokers to kill and to revive, where leaders and in-sync replicas are, and the cleaner.

import { get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, field, option, table, topicLink } from "/page/parts.js";
import { duration, number, size, visible } from "/page/words.js";

export const title = "Cluster";
export const events = ["brokers", "topics", "records"];

const MOST_SHOWN = 200;

const choice = { topic: "" };
let data = { names: [], busiest: [], topic: null, cleaner: [], revision: null };

export async function load({ state, isForced }) {
  if (isForced || data.revision !== state.revision) {
    const running = state.brokers.filter((one) => one.is_running);
    const [topics, ...cleaners] = await Promise.all([
      get("/overview/topics", { count: MOST_SHOWN, sort: "-records_in", internal: true }),
      ...running.map((one) => get(path`/brokers/${one.number}/cleaner`).then((found) => found.map((row) => ({ ...row, broker: one.number })))),
    ]);
    data.busiest = topics.topics.map((one) => one.name);
    data.names = [...data.busiest].sort();
    data.cleaner = cleaners.flat().filter((one) => !one.partition.startsWith("__") || one.clean_bytes + one.cleanable_bytes > 0).sort((one, other) => other.dirty_ratio - one.dirty_ratio);
    data.revision = state.revision;
  }
  if (!data.names.includes(choice.topic)) choice.topic = data.busiest.find((one) => !one.startsWith("__")) ?? data.names[0] ?? "";
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
    table("Brokers", ["Broker", "State", "Address", ["Leads partitions", "number"], ["Has replicas", "number"], ["Replicas not in sync", "number"], ""], state.brokers.map((one) => ({
      key: String(one.number),
      cells: [
        h("strong", {}, `broker ${one.number}`),
        h("span", { class: `badge ${one.is_running && !one.is_suspended && !one.is_cut_off ? "good" : "bad"}` }, one.is_suspended ? "paused" : one.is_cut_off ? "cut off" : one.is_running ? "runs" : "does not run"),
        one.address || "—", number(one.leads), number(one.replicas), one.out_of_sync ? h("strong", { class: "bad" }, number(one.out_of_sync)) : "0",
        actions(isCluster ? clusterActions(one, to) : action("Crash and start again", () => ["POST", "/crash", {}], { danger: true, sure: "Crash the broker?",
          hint: "Ends it as kill -9 does, and starts it again on the same port with its data", done: "The broker crashed, and runs again." })),
      ],
    })), "No broker is known."));
}

/** The verbs that apply to the state that a broker is in. */
function clusterActions(one, to) {
  const name = `broker ${one.number}`;
  const verb = (label, path, hint, done, more = {}) => action(label, () => ["POST", to(one, path), {}], { hint, done, name: `${label} ${name}`, ...more });
  if (!one.is_running) return verb("Start", "restart", "Starts it again on its port, with its data", `${name} runs again, with its data.`);
  const last = one.is_suspended ? verb("Go on", "reconnect", "Ends the pause: it answers again, and catches up", `${name} is back.`)
    : one.is_cut_off ? verb("Reconnect", "reconnect", "Ends the cut: it meets the other brokers again, and catches up", `${name} is back.`)
      : [verb("Pause", "pause", "As SIGSTOP does: it answers nothing, and loses its leaderships after its session time-out", `${name} is paused.`),
        verb("Cut off", "cut-off", "Cuts its network to the other brokers; clients still reach it", `${name} is cut off from the others.`)];
  return [
    verb("Kill", "kill", "Ends it as kill -9 does: its leaderships move, and its data stay on the disk", `${name} is dead.`, { danger: true, sure: `Kill ${name}?` }),
    verb("Stop", "stop", "Stops it as SIGTERM does: its leaderships move first, and clients notice little", `${name} has stopped.`, { danger: true, sure: `Stop ${name}?` }),
    last,
  ];
}

function movable(one, running) {
  const others = one.replicas.filter((broker) => broker !== one.leader && one.isr.includes(broker) && running.includes(broker));
  if (!others.length) return h("span", { class: "quiet" }, one.replicas.length > 1 ? "no other replica is in sync" : "there is one replica");
  return actions(others.map((broker) => action(`Make broker ${broker} lead`, () => ["POST", path`/topics/${choice.topic}/leader`, { partition: one.partition, to: broker }],
    { hint: "Moves the leadership; clients learn it by NOT_LEADER_OR_FOLLOWER, and ask for the metadata anew", name: `Make broker ${broker} lead ${choice.topic}-${one.partition}`, done: `Broker ${broker} leads.` })));
}

function leadersPart(state, rerender) {
  const running = state.brokers.filter((one) => one.is_running).map((one) => one.number);
  const rows = (data.topic?.partitions ?? []).slice(0, MOST_SHOWN).map((one) => ({
    key: String(one.partition),
    cells: [
      `${choice.topic}-${one.partition}`, one.leader < 0 ? h("strong", { class: "bad" }, "no leader") : `broker ${one.leader}`,
      one.replicas.map((broker, at) => [at ? " " : "", h("span", { class: one.isr.includes(broker) ? "badge good" : "badge bad" }, `broker ${broker}: ${one.isr.includes(broker) ? "in sync" : "not in sync"}`)]),
      movable(one, running),
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
    table("Log cleaner", ["Partition", "Broker", ["Dirty bytes", "number"], ["Clean bytes", "number"], ["Dirty share, 0 to 1", "number"], "Waits longer than max.compaction.lag.ms", "Uncleanable"],
      data.cleaner.slice(0, MOST_SHOWN).map((one) => ({
        key: `${one.broker} ${one.partition}`,
        cells: [one.partition, `broker ${one.broker}`, size(one.cleanable_bytes), size(one.clean_bytes), one.dirty_ratio.toFixed(2), one.delay_ms ? `for ${duration(one.delay_ms)}` : "no",
          one.uncleanable ? h("strong", { class: "bad" }, visible(one.uncleanable)) : "no"],
      })), "No topic is compacted."));
}
