// A topic: the anatomy of its logs, its records as they arrive, and what one can do to it.

import { anatomy, cleanerWords, fileName } from "/page/anatomy.js";
import { get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, field, jsonOf, link, option, showDialog, table, tell } from "/page/parts.js";
import { ago, bySchema, clockTime, counted, decode, fromBase64, given, number, size, visible } from "/page/words.js";

const COUNT = 50;
/** As `MOST_SEARCHED` of topic_view.py. */
const SEARCHED = 100_000;
const TOMBSTONES_EVERY_MS = 10_000;

export const title = "Topic";
export const titleOf = ({ params }) => params[0];
export const events = ["records", "topics"];
export const topicOf = ({ params }) => params[0];

let name = null;
let data = {};
let choice = {};
let known = new Set();

function begin(topic) {
  name = topic;
  data = {};
  choice = { partition: 0, of: "", scale: "offsets", as: "auto", containing: "", before: null, isPaused: false, isolation: "uncommitted" };
  known = new Set();
}

export async function load({ params, state, isForced }) {
  if (params[0] !== name) begin(params[0]);
  const topic = await get(path`/topics/${name}`);
  data.topic = topic;
  choice.partition = Math.min(choice.partition, topic.partitions.length - 1);
  const seen = JSON.stringify([topic.offsets, topic.partitions, choice.partition]);
  const seenRecords = JSON.stringify([topic.offsets, choice.of, choice.containing, choice.before, choice.isolation]);
  const isUndecoded = data.decode !== decodeAs(); // then they are loaded though it is paused: nothing else has their bytes
  const jobs = [];
  const isOther = isForced || data.seen !== seen;
  if (isOther && topic.partitions[choice.partition].leader >= 0) {
    jobs.push(loadLog(isForced));
  } else if (isOther) data.log = null;
  data.transactions = [];
  if (state.transaction_count) {
    jobs.push(get("/transactions").then((found) => (data.transactions = found.filter((one) => one.partitions.includes(`${name}-${choice.partition}`)))));
  }
  if (state.brokers.length > 1) {
    jobs.push(get("/offsets", { topic: name, partition: choice.partition }).then((found) => (data.replicas = found)));
  }
  if (isForced || !data.configs) jobs.push(get(path`/topics/${name}/configs`).then((found) => (data.configs = found)));
  if (isUndecoded || (!choice.isPaused && (isForced || data.seenRecords !== seenRecords))) jobs.push(loadRecords());
  await Promise.all(jobs);
  data.seen = seen;
  if (!choice.isPaused) data.seenRecords = seenRecords;
}

const decodeAs = () => (choice.as === "auto" ? "schema" : "base64");

async function loadLog(isForced) {
  [data.log] = await get(path`/topics/${name}/segments`, { partition: choice.partition });
  const isOther = data.tombstonesOf !== choice.partition;
  if (!data.log.cleaner || isOther) data.tombstones = null;
  if (data.log.cleaner && (isForced || isOther || Date.now() - data.tombstonesAt > TOMBSTONES_EVERY_MS)) {
    Object.assign(data, { tombstonesAt: Date.now(), tombstonesOf: choice.partition });
    data.tombstones = await get(path`/topics/${name}/tombstones`, { partition: choice.partition });
  }
}

async function loadRecords() {
  const isOne = choice.of !== "";
  const decodedAs = decodeAs();
  const found = await get(path`/topics/${name}/latest`, {
    count: COUNT, decode: decodedAs, isolation: choice.isolation,
    partition: isOne ? choice.of : undefined, before: isOne ? choice.before : undefined, containing: choice.containing || undefined,
  });
  const keys = new Set(found.map(keyOf));
  data.fresh = data.records ? new Set([...keys].filter((key) => !known.has(key))) : new Set();
  known = keys;
  data.records = found;
  data.decode = decodedAs;
}

const keyOf = (record) => `${record.partition}@${record.offset}`;

export function render({ state, rerender }) {
  const { topic } = data;
  const setting = (key) => data.configs?.find((one) => one.name === key)?.value;
  return [
    h("p", {}, link("/topics", "← all topics")),
    h("h1", {}, h("span", { class: "quiet" }, "topic "), visible(topic.name)),
    anatomyPart(state, setting, rerender),
    recordsPart(state, rerender),
    producePart(),
    settingsPart(),
  ];
}

function anatomyPart(state, setting, rerender) {
  const { topic, log } = data;
  const partition = topic.partitions[choice.partition];
  const replicas = !data.replicas ? [] : partition.replicas.map((broker) => ({
    broker, isLeader: broker === partition.leader, isInSync: partition.isr.includes(broker),
    end: data.replicas[broker]?.log_end_offset ?? null,
  }));
  const about = (more = {}) => ({ partition: choice.partition, ...more });
  return h("section", { "aria-labelledby": "anatomy" },
    h("h2", { id: "anatomy" }, "Log ", h("span", { class: "quiet" }, `${counted(topic.partitions.length, "partition")}, ${size(topic.size_bytes)} in all, `,
      `${setting("cleanup.policy") ?? ""}`)),
    h("div", { class: "bar" },
      topic.partitions.length > 1 && field("Partition", h("select", { id: "partition", onchange: (event) => {
        choice.partition = Number(event.target.value);
        rerender();
      } }, topic.partitions.map((one) => option(one.partition, `${one.partition}${one.leader < 0 ? ", no leader" : ""}`, one.partition === choice.partition)))),
      field("Drawn to scale by", h("select", { id: "scale", onchange: (event) => {
        choice.scale = event.target.value;
        rerender();
      } }, option("offsets"), option("bytes"))),
      field("Delete before offset", h("input", { id: "before", type: "number", min: 0, placeholder: "the end" })),
      actions(logActions(log, about, setting("cleanup.policy") ?? ""), action("Delete records", () => {
        const entered = document.getElementById("before").value;
        return ["POST", path`/topics/${name}/delete-records`, about({ offset: entered === "" ? -1 : Number(entered) })];
      }, { danger: true, sure: `Delete records of ${name}-${choice.partition} for good?`, hint: "Raises the log start offset to the offset entered, or to the high watermark: what is before it is gone", done: "The records are deleted.",
        cannot: log && log.offsets.log_start_offset === log.offsets.log_end_offset ? "The log is empty." : undefined }))),
    log ? anatomy(log, replicas, choice.scale, { tombstones: data.tombstones, transactions: data.transactions, nowMs: state.now_ms }) : h("p", { class: "bad" }, "This partition has no leader, so its log cannot be read."),
    log?.cleaner && h("p", {}, cleanerWords(log.cleaner, setting("min.cleanable.dirty.ratio"))),
    log && h("details", {}, h("summary", {}, counted(log.segments.length, "segment")),
      table("Segments", ["File", ["First offset", "number"], ["Size on disk", "number"], "State", "Created", "Newest record"],
        log.segments.map((one) => ({ key: String(one.base_offset), cells: [h("code", {}, fileName(one.base_offset)), number(one.base_offset), size(one.size_bytes),
          one.is_active ? "active: written to" : "sealed", ago(one.created_ms, state.now_ms), one.largest_timestamp_ms ? ago(one.largest_timestamp_ms, state.now_ms) : "—"] })), "")));
}

/** What applies to a log with this cleanup.policy. */
function logActions(log, about, policy) {
  const isEmpty = log && !log.segments[log.segments.length - 1].size_bytes;
  return [
    policy.includes("compact") && action("Compact", () => ["POST", path`/topics/${name}/compact`, about()], { hint: "Has the log cleaner clean this partition now, however little of it is dirty",
      done: (passes) => (passes?.length ? `Compacted in ${passes.length === 1 ? "one pass" : `${passes.length} passes`}.` : "There was nothing to clean.") }),
    action("Roll", () => ["POST", path`/topics/${name}/roll`, about()], { hint: "Seals the active segment and begins a new one", done: "A new segment has begun.",
      cannot: isEmpty ? "The active segment is empty: there is nothing to seal." : undefined }),
    policy.includes("delete") && action("Apply retention", () => ["POST", path`/topics/${name}/retention`, about()], { hint: "Deletes now what is older than retention.ms, or more than retention.bytes", done: "Retention was applied." }),
  ];
}

// --- records

function recordsPart(state, rerender) {
  const choose = (change) => {
    Object.assign(choice, change);
    rerender();
  };
  const records = data.records ?? [];
  const oldest = choice.of !== "" && records.length === COUNT ? records[records.length - 1].offset : null;
  return h("section", { "aria-labelledby": "records" },
    h("h2", { id: "records" }, "Records ", h("span", { class: "quiet" }, choice.isPaused ? "paused" : "the newest first, as they arrive")),
    h("div", { class: "bar" },
      h("input", { type: "search", id: "search", "aria-label": "Find records", placeholder: "Find in keys and values (press /)", value: choice.containing, oninput: (event) => choose({ containing: event.target.value, before: null }) }),
      field("Partition", h("select", { id: "of", onchange: (event) => choose({ of: event.target.value, before: null }) }, option("", "all"),
        data.topic.partitions.map((one) => option(String(one.partition))))),
      field("Show as", h("select", { id: "as", onchange: (event) => choose({ as: event.target.value }) }, option("auto", "by the schema, or text", choice.as === "auto"), option("text"), option("json", "JSON"), option("hex"))),
      field("Transactions", h("select", { id: "isolation", onchange: (event) => choose({ isolation: event.target.value }) },
        option("uncommitted", "open and aborted too"), option("committed", "committed records only"), option("all", "with their markers"))),
      h("button", { type: "button", "aria-pressed": String(choice.isPaused), onclick: () => choose({ isPaused: !choice.isPaused }) }, choice.isPaused ? "Go on" : "Pause"),
      choice.of !== "" && field("From offset", h("input", { type: "number", id: "from", min: 0, oninput: (event) => choose({ before: event.target.value === "" ? null : Number(event.target.value) + COUNT }) })),
      records.length > 0 && h("button", { type: "button", title: "Saves the records of the table as JSON", onclick: () => download(records) }, "Download"),
      choice.before !== null && h("button", { type: "button", onclick: () => choose({ before: null }) }, "Newest"),
      oldest !== null && h("button", { type: "button", onclick: () => choose({ before: oldest }) }, "Older")),
    table("Records", [["Partition", "number"], ["Offset", "number"], ["Time", "nowrap"], ["Key", "mono"], ["Value", "mono"], ["Headers", "mono"], ""], records.map((record) => ({
      key: keyOf(record), kind: data.fresh?.has(keyOf(record)) ? "fresh" : undefined,
      cells: [
        String(record.partition), number(record.offset),
        h("span", { title: `${ago(record.timestamp, state.now_ms)}, in UTC by the broker's clock` }, clockTime(record.timestamp)),
        shown(record, "key"), shown(record, "value"),
        record.headers.map(([header, value]) => h("div", {}, `${visible(header)}: `, value === null ? h("em", {}, "null") : visible(data.decode === "schema" ? given(value) : decode(fromBase64(value), "text")))),
        record.state !== "committed" && h("span", { class: record.state === "open" || record.state === "aborted" ? "badge bad" : "badge" }, record.state),
      ],
    })), choice.containing ? `None of the last ${number(SEARCHED)} records of a partition has this in its key, its value or a header.` : "There is no record here."));
}

function download(records) {
  const file = URL.createObjectURL(new Blob([JSON.stringify(records, null, 2)], { type: "application/json" }));
  h("a", { href: file, download: `${name}.json` }).click();
  URL.revokeObjectURL(file);
}

const CUT = 2_000;

/** What is said of data beside their text: the schema by which they were decoded, or why they were not. */
function saidOf({ schema, problem }) {
  if (schema) return h("div", { class: "quiet" }, visible(`${schema.subject} version ${schema.version}, id ${schema.id}`));
  return problem && h("div", { class: "bad" }, visible(problem));
}

function shown(record, which) {
  const text = record[which];
  if (text === null) return h("em", {}, which === "value" ? "null (tombstone)" : "null");
  if (data.decode === "schema") {
    const found = bySchema(text);
    return [(found.text.length <= CUT && found.text.includes("\n") && jsonOf(found.text)) || visible(found.text.slice(0, CUT)),
      found.text.length > CUT && ["… ", h("button", { type: "button", onclick: () => showWhole(record, which) }, `show all ${size(record[`${which}_bytes`])}`)],
      saidOf(found)];
  }
  const bytes = fromBase64(text);
  const whole = record[`${which}_bytes`];
  const inTable = bytes.subarray(0, CUT);
  const isCut = whole > inTable.length;
  const decoded = decode(inTable, choice.as);
  return [(choice.as === "json" && !isCut && jsonOf(decoded)) || visible(decoded),
    isCut && ["… ", h("button", { type: "button", onclick: () => showWhole(record, which) }, `show all ${size(whole)}`)]];
}

async function showWhole(record, which) {
  try {
    const decodedAs = decodeAs();
    const [{ [which]: whole }] = await get(path`/topics/${name}/latest`, { partition: record.partition, before: record.offset + 1, count: 1, most_bytes: 0, decode: decodedAs, isolation: "all" });
    const found = decodedAs === "schema" ? bySchema(whole) : { text: decode(fromBase64(whole), choice.as) };
    showDialog(`The ${which} of ${name}-${record.partition} at offset ${record.offset}`, saidOf(found),
      (choice.as !== "hex" && jsonOf(found.text)) || h("pre", { class: "code", tabindex: "0" }, visible(found.text)));
  } catch (error) {
    tell(error.message, true);
  }
}

// --- writing

function producePart() {
  const of = (id) => document.getElementById(id);
  const request = () => {
    const headers = of("produce-headers").value.split("\n").filter((line) => line.trim() !== "").map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`A header is a line with name=value; this is none: ${line}`);
      return [line.slice(0, at), line.slice(at + 1)];
    });
    const body = { value: of("produce-null").checked ? null : of("produce-value").value };
    if (of("produce-key").value !== "") body.key = of("produce-key").value;
    if (of("produce-partition").value !== "") body.partition = Number(of("produce-partition").value);
    if (headers.length) body.headers = headers;
    return ["POST", path`/topics/${name}/records`, body];
  };
  return h("section", { "aria-labelledby": "produce" },
    h("h2", { id: "produce" }, "Write a record"),
    h("div", { class: "form" },
      field("Key", h("input", { id: "produce-key", placeholder: "none: null", spellcheck: "false" })),
      field("Partition", h("select", { id: "produce-partition" }, option("", "by the key"), data.topic.partitions.map((one) => option(String(one.partition))))),
      h("label", {}, h("input", { type: "checkbox", id: "produce-null" }), " null: a tombstone, which deletes the key on a compacted topic")),
    h("div", { class: "form" },
      h("label", { class: "field wide" }, h("span", {}, "Value"), h("textarea", { id: "produce-value", class: "wide mono", rows: 3, spellcheck: "false" })),
      h("label", { class: "field" }, h("span", {}, "Headers, a line for each: name=value"), h("textarea", { id: "produce-headers", class: "mono", rows: 3, spellcheck: "false" })),
      actions(action("Write", request, { hint: "Appends the record as a producer with acks=all does", done: (made) => `Written: partition ${made.partition}, offset ${number(made.offset)}.` }))));
}

function settingsPart() {
  const rows = (data.configs ?? []).filter((one) => !one.is_default);
  return h("section", { "aria-labelledby": "settings" },
    h("h2", { id: "settings" }, "Settings that are not the default"),
    table("Settings", ["Setting", "Value"], rows.map((one) => ({ key: one.name, cells: [h("code", {}, one.name), h("code", {}, visible(one.value ?? "—"))] })), "Every setting has its default."),
    h("div", { class: "form" },
      field("Setting", h("select", { id: "config-name" }, (data.configs ?? []).filter((one) => !one.is_read_only).map((one) => option(one.name)))),
      field("New value", h("input", { id: "config-value", placeholder: "nothing: the default again" })),
      actions(action("Change", () => {
        const value = document.getElementById("config-value").value;
        return ["PATCH", path`/topics/${name}/configs`, { changes: { [document.getElementById("config-name").value]: value === "" ? null : value } }];
      }, { hint: "Changes the setting at once; an empty value takes it back to the default", done: "The setting is changed." }),
      action("Delete topic", () => ["DELETE", path`/topics/${name}`], { danger: true, sure: `Delete the topic ${name} with all its records?`, hint: "Deletes the topic and its records for good", done: "The topic is deleted.", after: () => (location.hash = "/topics") }))));
}
