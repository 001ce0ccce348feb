// The clock to move, and the fault rules: set by a form, looked at, released, copied into a test.

import { asCurl, get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, copy, field, option, run, table, tell } from "/page/parts.js";
import { ahead, clockTime, counted, duration, visible } from "/page/words.js";

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

const form = { api: "Produce", topic: "", group: "", client_id: "", transactional_id: "", subject: "", method: "", times: "1", skip: "0", act: "error", detail: "NOT_LEADER_OR_FOLLOWER", name: "" };
let data = { clock: null, rules: [] };

export async function load({ query }) {
  for (const key of Object.keys(form)) if (query.has(key) && !taken.has(query.toString())) form[key] = query.get(key);
  taken.add(query.toString());
  [data.clock, data.rules] = await Promise.all([get("/clock"), get("/faults")]);
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
  const move = (label, duration, name = label) => action(label, () => {
    const by = typeof duration === "function" ? duration() : duration;
    return ["POST", "/clock/advance", { duration: by, ...(liveness() ? { liveness: true } : {}) }];
  }, { title: `Move the clock ahead by ${name}`, done: "The clock was moved, and everything that fell due has run." });
  return h("section", { "aria-labelledby": "clock" },
    h("h2", { id: "clock" }, "Clock"),
    h("p", {}, h("strong", {}, `${clockTime(data.clock.now_ms).slice(0, 19)} UTC`), h("span", { class: state.ahead_ms ? "moved" : "quiet" }, `  ${ahead(data.clock.ahead_ms)}`)),
    h("div", { class: "bar" },
      move("+1 m", "1m"), move("+1 h", "1h"), move("+1 d", "1d"), move("+7 d", "7d"),
      h("input", { id: "duration", "aria-label": "How far", placeholder: "90m, 1h30m, 250ms", size: 14 }),
      move("Move ahead", () => entered("duration")),
      action("Turn back", () => ["POST", "/clock/turn-back", { duration: entered("duration") }], { done: "The clock was turned back.", title: "As the clock of a machine that is corrected" }),
      h("label", {}, h("input", { type: "checkbox", id: "liveness" }), " time-outs too: sessions, requests, transactions, connections")),
    h("p", { class: "quiet" }, "Retention, compaction and expiry run by this clock. Moving it ahead returns when everything that fell due has run."));
}

function entered(id) {
  const value = document.getElementById(id).value.trim();
  if (!value) throw new Error("Say how far: 90m, 1h30m, 250ms.");
  return value;
}

function inWords(document_) {
  if (!document_) return ["a Python function", "", ""];
  const { api, ...conditions } = document_.when;
  const when = [api.join(", "), ...Object.entries(conditions).map(([name, value]) => `${name}=${value}`)].join(", ");
  const which = Object.entries(document_.which ?? {}).map(([name, value]) => `${name} ${JSON.stringify(value).replaceAll('"', "")}`).join(", ") || "always";
  const does = document_.do.map((act) => Object.entries(act).filter(([, value]) => value !== false).map(([name, value]) => (value === true ? name : `${name} ${typeof value === "number" && TIMES.has(name) ? duration(value) : typeof value === "string" ? value : JSON.stringify(value)}`)).join(", ")).join("; ");
  return [when, which, does].map(visible);
}

function rulesPart() {
  const rows = data.rules.map((one) => {
    const [when, which, does] = inWords(one.rule);
    return {
      key: one.name,
      cells: [
        h("strong", {}, visible(one.name)), when, which, does,
        [h("span", { class: one.hits ? "good" : "" }, counted(one.hits, "hit")), ` of ${one.seen} seen`, one.why && h("div", { class: "quiet" }, visible(one.why)),
          one.held.map((text) => h("div", {}, "holds ", h("code", {}, visible(text))))],
        h("div", { class: "buttons" },
          one.held.length > 0 && action("Release", () => ["POST", path`/faults/${one.name}/release`, {}], { done: "Released." }),
          action("Remove", () => ["DELETE", path`/faults/${one.name}`], { done: "The rule is gone." }),
          one.rule && action("Again", () => ["POST", "/faults", { rules: [one.rule] }], { title: "Set the same rule anew, with no hits", done: "The rule begins anew." }),
          one.rule && copies(() => one.rule)),
      ],
    };
  });
  return h("section", { "aria-labelledby": "rules" },
    h("h2", { id: "rules" }, "Fault rules"),
    table("Fault rules", ["Name", "Requests", "Which", "Does", "Met", ""], rows, "No fault rule is in force. Set one below, or copy one of a request."),
    rows.length > 1 && action("Remove all", () => ["DELETE", "/faults"], { done: "All rules are gone." }));
}

function copies(rule) {
  const give = (write, what) => () => {
    try {
      copy(write(rule()), what);
    } catch (error) {
      tell(error.message, true);
    }
  };
  return h("span", { class: "buttons" },
    h("button", { type: "button", onclick: give(asPython, "the rule as Python") }, "Copy as Python"),
    h("button", { type: "button", onclick: give((one) => JSON.stringify(one), "the rule as JSON") }, "JSON"),
    h("button", { type: "button", onclick: give((one) => asCurl("POST", "/faults", { rules: [one] }), "the rule as curl") }, "curl"));
}

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
      h("button", {}, "Set the rule"), copies(() => ruleOf(form))),
    h("p", { class: "quiet" }, "In a test: ", h("code", { id: "rule-python" }, visible(preview))));
}
