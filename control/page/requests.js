// The requests of clients as they come, with a filter as one types.

import { get, Problem } from "/page/api.js";
import { h } from "/page/dom.js";
import { copy, field, link, option, table } from "/page/parts.js";
import { counted, duration, number, size, visible } from "/page/words.js";

export const title = "Requests";
export const everyMs = 1_000; // not by the stream: it would bring each request twice

const MOST_KEPT = 2_000;
const MOST_SHOWN = 200;
const AT_FIRST = 300;
const DULL = new Set(["Fetch", "Heartbeat", "ApiVersions", "ConsumerGroupHeartbeat"]);

const choice = { text: "", outcome: "", hidesDull: true, isPaused: false };
let kept = [];
let next = null;
let lost = 0;
let missing = "";

export async function load() {
  if (choice.isPaused) return;
  try {
    if (next === null) next = Math.max((await get("/requests/mark")) - AT_FIRST, 1);
    const found = await get("/requests", { since: next });
    take(found);
    missing = "";
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 0 || error.status === 401) throw error;
    missing = error.message;
    next = null;
  }
}

/** Keep the new ones; those that were not answered yet are asked for again. */
function take(found) {
  if (found.length && kept.length && found[found.length - 1].number < kept[0].number) kept = []; // the broker was reset
  const byNumber = new Map(kept.map((one) => [one.number, one]));
  for (const one of found) byNumber.set(one.number, one);
  kept = [...byNumber.values()].sort((one, other) => other.number - one.number).slice(0, MOST_KEPT);
  if (!kept.length) return;
  const open = kept.filter((one) => one.ms === null && one.closed === null).map((one) => one.number);
  next = Math.max(Math.min(kept[0].number + 1, ...open), kept[0].number - AT_FIRST);
  lost = kept[kept.length - 1].number - 1;
}

/** "Produce v11"; a request to the schema registry has no version. */
const asked = (one) => (one.registry ? one.api : `${one.api} v${one.version}`);

const about = (one) => one.registry ? [`${one.registry.method} ${one.registry.path}`, one.registry.message].filter(Boolean).join("  ") : [
  ...one.partitions.slice(0, 5).map((place) => `${place.topic}${place.partition === null ? "" : `-${place.partition}`}${place.offset === null ? "" : `@${{ "-1": "latest", "-2": "earliest" }[place.offset] ?? place.offset}`}${place.records === null ? "" : `: ${counted(place.records, "record")}`}`),
  one.partitions.length > 5 ? `and ${one.partitions.length - 5} more` : "",
  ...one.groups.map((group) => `group ${group}`), ...one.transactional_ids.map((id) => `transactional id ${id}`),
].filter(Boolean).join("  ");

function outcome(one) {
  if (one.closed !== null) return [`no answer: ${visible(one.closed)}`, true];
  if (one.ms === null) return ["waits", false];
  return one.errors.length ? [one.errors.join(" "), true] : ["ok", false];
}

const line = (one) => `${asked(one)} ${one.client_id ?? ""} ${about(one)} ${outcome(one)[0]} ${one.faults.join(" ")} ${one.connection}`.toLowerCase();

export function render({ rerender }) {
  const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  const isWanted = (one) => {
    const [, isBad] = outcome(one);
    if (choice.outcome === "errors" && !isBad) return false;
    if (choice.outcome === "faults" && !one.faults.length) return false;
    if (choice.outcome === "waits" && (one.ms !== null || one.closed !== null)) return false;
    if (choice.hidesDull && DULL.has(one.api) && !isBad && !one.faults.length) return false;
    const text = line(one);
    return words.every((word) => (word.startsWith("-") && word.length > 1 ? !text.includes(word.slice(1)) : text.includes(word)));
  };
  const wanted = kept.filter(isWanted);
  const change = (more) => {
    Object.assign(choice, more);
    rerender();
  };
  const began = kept.length ? kept[kept.length - 1].time_ms : 0;
  const rows = wanted.slice(0, MOST_SHOWN).map((one) => {
    const [text, isBad] = outcome(one);
    return {
      key: String(one.number), kind: isBad ? "failed" : undefined,
      cells: [
        h("span", { title: `${new Date(one.time_ms).toISOString()}; after the oldest request here` }, `+${((one.time_ms - began) / 1000).toFixed(3)} s`),
        one.client_id === null ? h("em", { title: one.connection }, "no client id") : h("span", { title: one.connection }, visible(one.client_id)),
        asked(one), visible(about(one)), [h("span", { class: isBad ? "bad" : undefined }, text), one.faults.map((name) => h("div", {}, "by ", link("/faults", `rule '${name}'`)))],
        one.ms === null ? "" : one.ms < 10_000 ? `${one.ms.toFixed(1)} ms` : duration(one.ms), `${size(one.bytes_in)} / ${size(one.bytes_out)}`, one.registry ? "" : `broker ${one.broker}`,
        asRule(one),
      ],
    };
  });
  return [
    h("h1", {}, "Requests"),
    h("section", {},
      h("div", { class: "bar" },
        h("input", { type: "search", id: "search", "aria-label": "Filter requests by words", placeholder: "Words, as: produce orders -heartbeat (press /)", value: choice.text, size: 46, oninput: (event) => change({ text: event.target.value }) }),
        field("Outcome", h("select", { id: "outcome", onchange: (event) => change({ outcome: event.target.value }) },
          [["", "any"], ["errors", "errors"], ["faults", "a fault rule acted"], ["waits", "waits for its answer"]].map(([value, words]) => option(value, words, value === choice.outcome)))),
        h("label", {}, h("input", { type: "checkbox", checked: choice.hidesDull, onchange: (event) => change({ hidesDull: event.target.checked }) }), " leave out fetches and heartbeats that went well"),
        h("button", { type: "button", "aria-pressed": String(choice.isPaused), onclick: () => change({ isPaused: !choice.isPaused }) }, choice.isPaused ? "Go on" : "Pause")),
      h("p", { class: "quiet" }, missing || `${number(wanted.length)} of the last ${number(kept.length)} requests${choice.isPaused ? ", paused" : ""}; the newest first${lost > 0 ? `; ${number(lost)} older ones are not here` : ""}.`),
      table("Requests", [["Time", "number"], "Client", "Request", ["About", "wide"], "Answer", ["Took", "number"], ["Sent / answered", "number"], ["Broker", "nowrap"], ""], rows,
        kept.length ? "No request matches the filter." : "No client has sent a request yet.")),
  ];
}

/** A link to the form of faults, filled with what this request is, and the rule to copy. */
function asRule(one) {
  const values = { api: one.api, act: "error" };
  if (one.client_id) values.client_id = one.client_id;
  if (one.registry) {
    values.method = one.registry.method;
    values.detail = "500";
    if (one.registry.subject !== null) values.subject = one.registry.subject;
  } else if (one.partitions.length) values.topic = one.partitions[0].topic;
  else if (one.groups.length) values.group = one.groups[0];
  return h("span", { class: "actions nowrap" },
    h("a", { class: "nowrap", href: `#/faults?${new URLSearchParams(values)}`, title: "Opens the form of fault rules, filled with this request" }, "set a fault"),
    h("button", { type: "button", class: "curl", title: "Copies a fault rule for requests like this one, as a line of Python", "aria-label": `Copy as fault rule: ${one.api}`, onclick: async () => {
      const { asPython, exampleOf } = await import("/page/faults.js");
      copy(asPython(exampleOf(values)), "a fault rule for requests like this one");
    } }, "copy"));
}
