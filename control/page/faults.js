// The clock to move, and the fault rules: set by a form, looked at, released, copied into a test.

import { asCurl, get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, field, groupLink, link, option, run, table, tell, topicLink } from "/page/parts.js";
import { ahead, clockTime, counted, duration, number, visible } from "/page/words.js";

export const title = "Faults and clock";
export const events = ["faults", "clock"];

const APIS = ["Produce", "Fetch", "Metadata", "ListOffsets", "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
  "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "ApiVersions", "CreateTopics", "DeleteRecords", "connect", "disk", "registry", "*"];

/** What a rule can ask of requests: those to the schema registry have other parts than Kafka's. */
const CONDITIONS = ["topic", "group", "client_id", "transactional_id"];
const CONDITIONS_OF_REGISTRY = ["subject", "method", "client_id"];
const conditionsOf = (api) => (api === "registry" ? CONDITIONS_OF_REGISTRY : CONDITIONS);

const ERRORS = ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR", "OFFSET_OUT_OF_RANGE",
  "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
  "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"];

// What a rule does: in the form, as JSON, and as a method in Python. `detail` is the value that it needs.
const ACTS = [
  ["error", "answer an error; nothing is applied", "error", ({ detail }) => ({ error: detail }), ({ detail }) => `error(${python(detail)})`],
  ["apply_then_error", "apply it, and answer an error", "error", ({ detail }) => ({ error: detail, applied: true }), ({ detail }) => `apply_then_error(${python(detail)})`],
  ["delay", "let it wait", "time", ({ detail }) => ({ delay: detail }), ({ detail }) => `delay(${python(detail)})`],
  ["hold", "hold it until you release it", "", () => ({ hold: "before" }), () => "hold()"],
  ["disconnect", "close the connection; nothing is applied", "", () => ({ disconnect: true }), () => "disconnect()"],
  ["apply_then_disconnect", "apply it, and close the connection: a lost answer", "", () => ({ disconnect: true, applied: true }), () => "apply_then_disconnect()"],
  ["drop", "never answer", "", () => ({ drop: true }), () => "drop()"],
  ["throttle", "throttle the client", "time", ({ detail }) => ({ throttle: detail }), ({ detail }) => `throttle(${python(detail)})`],
  ["refuse", "refuse connections (with connect)", "", () => ({ refuse: true }), () => "refuse()"],
  ["silent", "accept connections and say nothing (with connect)", "", () => ({ silent: true }), () => "silent()"],
  ["full", "have a full disk (with disk)", "", () => ({ disk: "full" }), () => "full()"],
];

/** What the form calls a condition, and what its field says while it is empty. */
const WORDS = {
  topic: ["of topic", "any"], group: ["of group", "any"], client_id: ["of client id", "any, app-*"], transactional_id: ["of transactional id", "any"],
  subject: ["of subject", "any, orders-*"], method: ["of method", "any, POST"],
};

const EMPTY = { api: "Produce", topic: "", group: "", client_id: "", transactional_id: "", subject: "", method: "", times: "1", skip: "0", act: "error", detail: "NOT_LEADER_OR_FOLLOWER", name: "" };
const form = { ...EMPTY };
let data = { clock: null, rules: [], due: [] };

export async function load({ query }) {
  for (const key of Object.keys(form)) if (query.has(key) && !taken.has(query.toString())) form[key] = query.get(key);
  taken.add(query.toString());
  [data.clock, data.rules, data.due] = await Promise.all([get("/clock"), get("/faults"), get("/clock/due", { count: 12 })]);
}

/** Acts whose value is a time in milliseconds. */
const TIMES = new Set(["delay", "throttle", "slow", "slow_fsync"]);

const taken = new Set([""]);

// --- rules as JSON and as Python

export function ruleOf(values) {
  const when = { api: [values.api] };
  for (const name of conditionsOf(values.api)) if (values[name] !== "") when[name] = values[name];
  const which = {};
  if (values.skip && values.skip !== "0") which.skip = Number(values.skip);
  if (values.times !== "") which.times = Number(values.times);
  const act = ACTS.find(([kind]) => kind === values.act);
  if (act[2] && values.detail === "") throw new Error(`The rule needs ${act[2] === "time" ? "a time, as 200ms" : values.api === "registry" ? "the number of an error, as 40901" : "the name of an error"}.`);
  const rule = { when, do: [act[3](values)] };
  if (Object.keys(which).length) rule.which = which;
  if (values.name !== "") rule.name = values.name;
  return rule;
}

/** A rule for requests like one that has come: it answers the first of them with an error. */
export const exampleOf = (values) => ruleOf({ ...EMPTY, ...values });

/** A value of JSON as Python writes it. */
export function python(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, one]) => `${python(key)}: ${python(one)}`).join(", ")}}`;
  return JSON.stringify(value);
}

export function asPython(rule) {
  const which = Object.entries(rule.which ?? {});
  const act = rule.do.length === 1 ? ACTS.find(([, , , json]) => sameAct(json, rule.do[0])) : undefined;
  if (!act || which.some(([key]) => !["times", "skip"].includes(key))) return `broker.faults.load([${python(rule)}])`;
  const { api, ...conditions } = rule.when;
  const given = Object.entries({ ...conditions, ...(rule.name ? { name: rule.name } : {}) }).map(([key, value]) => `, ${key}=${python(value)}`).join("");
  const on = api.length === 1 ? python(api[0]) : python(api);
  const selection = which.sort().map(([key, value]) => (key === "times" && value === 1 ? ".once()" : `.${key}(${value})`)).join("");
  return `broker.faults.on(${on}${given})${selection}.${act[4]({ detail: rule.do[0].error ?? rule.do[0].delay ?? rule.do[0].throttle })}`;
}

function sameAct(json, act) {
  const detail = act.error ?? act.delay ?? act.throttle;
  return JSON.stringify(Object.entries(json({ detail })).sort()) === JSON.stringify(Object.entries(act).filter(([, value]) => value !== false).sort());
}

// --- what is shown

export function render({ state, rerender }) {
  return [h("h1", {}, "Faults and clock"), clockPart(state), rulesPart(), formPart(rerender)];
}

function clockPart(state) {
  const liveness = () => document.getElementById("liveness").checked;
  const move = (label, by, hint, also = liveness) => action(label, () =>
    ["POST", "/clock/advance", { duration: typeof by === "function" ? by() : by, ...(also() ? { liveness: true } : {}) }],
  { hint, done: "The clock was moved, and everything that fell due has run." });
  const steps = [["+1 min", "1m", "a minute"], ["+1 h", "1h", "an hour"], ["+1 d", "1d", "a day"], ["+7 d", "7d", "seven days"]];
  return h("section", { "aria-labelledby": "clock" },
    h("h2", { id: "clock" }, "Clock"),
    h("p", {}, h("strong", {}, `${clockTime(data.clock.now_ms).slice(0, 19)} UTC`), h("span", { class: state.ahead_ms ? "moved" : "quiet" }, `  ${ahead(data.clock.ahead_ms)}`),
      data.clock.moves_to_ms && h("span", { class: "moved", role: "status" }, `  It is being moved to ${clockTime(data.clock.moves_to_ms).slice(0, 19)} UTC.`)),
    h("div", { class: "bar" },
      h("input", { id: "duration", "aria-label": "How far", placeholder: "90m, 1h30m, 7d", size: 14 }),
      actions(steps.map(([label, by, words]) => move(label, by, `Moves the clock ahead by ${words}, and runs what falls due on the way`)),
        move("Move ahead", () => entered("duration"), "Moves the clock ahead by the time entered, and runs what falls due on the way"),
        action("Turn back", () => ["POST", "/clock/turn-back", { duration: entered("duration") }], { done: "The clock was turned back.", hint: "Turns the clock back by the time entered, as that of a machine that is corrected; nothing runs" })),
      h("label", {}, h("input", { type: "checkbox", id: "liveness" }), " time-outs too: sessions, requests, transactions, connections")),
    h("p", { class: "quiet" }, "Retention, compaction and expiry run by this clock. Moving it ahead returns when everything that fell due has run."),
    h("h3", { id: "due" }, "Due next ", h("span", { class: "quiet" }, "if nothing happens but that time passes")),
    table("Due next", ["In", "What happens", ""], data.due.map((one) => ({
      key: `${one.what} ${one.name} ${one.text}`,
      cells: [
        h("span", { class: "nowrap" }, one.in_ms ? duration(one.in_ms) : "now", one.within_ms > 0 && h("span", { class: "quiet" }, `, checked within ${duration(one.within_ms)}`)),
        [linked(one), one.is_time_out && h("span", { class: "quiet" }, "; a time-out"), one.partition_count > 1 && h("span", { class: "quiet" }, `; the earliest of ${counted(one.partition_count, "partition")}`)],
        actions({ ...move("Move there", one.in_ms + one.within_ms, `Moves the clock ahead by ${duration(one.in_ms + one.within_ms)}${one.is_time_out ? ", time-outs too" : ""}`, () => one.is_time_out), name: `Move there: ${one.text}` }),
      ],
    })), "Nothing that the broker knows of falls due by time alone."));
}

/** The sentence of an entry, with the name that it is about as a link. */
function linked({ text, kind, name }) {
  const before = { group: "group ", transaction: "'", topic: "" }[kind];
  const at = text.indexOf(before + name + (kind === "topic" ? "-" : "")) + before.length;
  const shown = kind === "topic" ? topicLink(name) : kind === "group" ? groupLink(name) : link("/groups", name);
  return at < before.length ? visible(text) : [visible(text.slice(0, at)), shown, visible(text.slice(at + name.length))];
}

function entered(id) {
  const value = document.getElementById(id).value.trim();
  if (!value) throw new Error("Say how far: 90m, 1h30m, 250ms.");
  return value;
}

/** An act in the words of the form; undefined for one that the form does not have. */
function doneBy(act) {
  const words = ACTS.find(([, , , json]) => sameAct(json, act))?.[1];
  const detail = act.error ?? act.delay ?? act.throttle;
  return words && (detail === undefined ? words : `${words}: ${typeof detail === "number" ? duration(detail) : detail}`);
}

function inWords(document_) {
  if (!document_) return ["a Python function", "", ""];
  const { api, ...conditions } = document_.when;
  const when = [api.join(", "), ...Object.entries(conditions).map(([name, value]) => `${name}=${value}`)].join(", ");
  const which = Object.entries(document_.which ?? {}).map(([name, value]) => (name === "times" ? `the first ${counted(value, "request")}` : name === "skip" ? `after leaving out ${number(value)}` : `${name} ${JSON.stringify(value).replaceAll('"', "")}`)).join(", ") || "all";
  const does = document_.do.map((act) => doneBy(act) ?? Object.entries(act).filter(([, value]) => value !== false).map(([name, value]) => (value === true ? name : `${name} ${typeof value === "number" && TIMES.has(name) ? duration(value) : typeof value === "string" ? value : JSON.stringify(value)}`)).join(", ")).join("; ");
  return [when, which, does].map(visible);
}

/** How often a rule has acted, of how often it is to. */
function hitsOf(one) {
  const most = one.rule?.which?.times;
  return [h("span", { class: one.hits ? "good" : "" }, most ? `${number(one.hits)} of ${counted(most, "hit")}` : counted(one.hits, "hit")),
    one.is_over && h("span", { class: "badge" }, "used up"), h("div", { class: "quiet" }, `${counted(one.seen, "request")} matched it`)];
}

function rulesPart() {
  const rows = data.rules.map((one) => {
    const [when, which, does] = inWords(one.rule);
    return {
      key: one.name, kind: one.is_over ? "over" : undefined,
      cells: [
        h("strong", {}, visible(one.name)), when, which, does,
        [hitsOf(one), one.why && h("div", { class: "quiet" }, visible(one.why)), one.held.map((text) => h("div", {}, "holds ", h("code", {}, visible(text))))],
        actions(
          one.held.length > 0 && action("Release", () => ["POST", path`/faults/${one.name}/release`, {}], { hint: "Lets the requests that the rule holds go on", name: `Release ${one.name}`, done: "Released." }),
          one.rule && one.hits > 0 && action("Again", () => ["POST", "/faults", { rules: [one.rule] }], { hint: "Sets the same rule anew, with no hits", name: `Again: ${one.name}`, done: "The rule begins anew." }),
          action("Remove", () => ["DELETE", path`/faults/${one.name}`], { hint: "Takes the rule back; requests that it holds go on", done: "The rule is gone." }),
          one.rule && texts(() => one.rule)),
      ],
    };
  });
  return h("section", { "aria-labelledby": "rules" },
    h("h2", { id: "rules" }, "Fault rules"),
    table("Fault rules", ["Name", "Requests", "Which of them", "Does", "Has acted", ""], rows, "No fault rule is in force. Set one below, or copy one of a request."),
    rows.length > 1 && actions(action("Remove all", () => ["DELETE", "/faults"], { danger: true, sure: `Remove all ${rows.length} rules?`, hint: "Takes every rule back; requests that they hold go on", done: "All rules are gone." })));
}

/** A rule to copy, in three forms. */
const texts = (rule) => [
  { label: "The rule as Python", text: () => asPython(rule()) },
  { label: "The rule as JSON", text: () => JSON.stringify(rule(), null, 2) },
  { label: "A new rule like it, as curl", text: () => asCurl("POST", "/faults", { rules: [rule()] }) },
];

function formPart(rerender) {
  const text = (name, hint, list) => h("input", { id: `rule-${name}`, placeholder: hint, spellcheck: "false", value: form[name], list, oninput: (event) => {
    form[name] = event.target.value;
    rerender();
  } });
  const act = ACTS.find(([kind]) => kind === form.act);
  let preview;
  try {
    preview = asPython(ruleOf(form));
  } catch (error) {
    preview = error.message;
  }
  return h("section", { "aria-labelledby": "new-rule" },
    h("h2", { id: "new-rule" }, "Set a rule"),
    h("form", { class: "form", onsubmit: (event) => {
      event.preventDefault();
      try {
        run("POST", "/faults", { rules: [ruleOf(form)] }, "The rule is in force.");
      } catch (error) {
        tell(error.message, true);
      }
    } },
      field("When a request is", text("api", "Produce", "apis")), h("datalist", { id: "apis" }, APIS.map((one) => option(one))),
      conditionsOf(form.api).map((name) => field(WORDS[name][0], text(name, WORDS[name][1]))),
      field("leave out the first", text("skip", "0")), field("act how often", text("times", "always")),
      field("then", h("select", { id: "rule-act", onchange: (event) => {
        form.act = event.target.value;
        form.detail = "";
        const wanted = ACTS.find(([kind]) => kind === form.act)[2];
        form.detail = wanted === "error" ? (form.api === "registry" ? "40901" : ERRORS[0]) : wanted === "time" ? "200ms" : "";
        const shownDetail = document.getElementById("rule-detail");
        if (shownDetail) shownDetail.value = form.detail;
        rerender();
      } }, ACTS.map(([kind, words]) => option(kind, words, kind === form.act)))),
      act[2] && field(act[2] === "error" ? "error" : "how long", text("detail", act[2] === "error" ? (form.api === "registry" ? "40901" : "NOT_LEADER_OR_FOLLOWER") : "200ms", act[2] === "error" ? "errors" : undefined)),
      h("datalist", { id: "errors" }, ERRORS.map((one) => option(one))),
      field("Name", text("name", "made from the rule")),
      actions(h("button", { title: "Puts the rule in force; one of the same name is replaced" }, "Set the rule"), texts(() => ruleOf(form)))),
    h("p", { class: "quiet" }, "In a test: ", h("code", { id: "rule-python" }, visible(preview))));
}
