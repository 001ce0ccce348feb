// The schema registry: subjects, their versions, what changed between them, and a schema tried before it is registered.

import { get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, field, inOrder, link, option, table } from "/page/parts.js";
import { counted, number, visible } from "/page/words.js";

export const title = "Schemas";
export const titleOf = ({ params }) => (params[0] ? `Subject ${params[0]}` : title);
export const events = ["records"];

const choice = { containing: "", sort: "subject" };
const ORDERS = { subject: (one) => one.subject, versions: (one) => one.version_count, id: (one) => one.id, type: (one) => one.type };
let data = { isServed: false, subjects: [], subject: null, versions: [] };
/** Of the subject that is shown: the version, and what came of the last try. */
let of = { subject: null, version: null, tried: null };

export async function load({ params }) {
  const isServed = (await get("")).registry_port !== null;
  const [subjects, versions] = isServed ? await Promise.all([get("/subjects"), params[0] ? get(path`/subjects/${params[0]}`) : []]) : [[], []];
  if (params[0] !== of.subject) of = { subject: params[0], version: null, tried: null };
  data = { isServed, subjects, subject: params[0], versions };
}

export function render(context) {
  if (!data.isServed) {
    return [h("section", {}, h("h1", {}, "Schemas"), h("p", {}, "No schema registry is served here. ", h("code", {}, "kmini serve --http 8090 --registry 8081"), " serves one, for the serializers of Confluent's clients."))];
  }
  return data.subject ? renderSubject(context) : renderAll(context);
}

const subjectLink = (name) => link(`/schemas/${encodeURIComponent(name)}`, name);

function renderAll({ rerender }) {
  const choose = (change) => {
    Object.assign(choice, change);
    rerender();
  };
  const wanted = inOrder(data.subjects.filter((one) => one.subject.toLowerCase().includes(choice.containing.toLowerCase())), choice.sort, ORDERS);
  return [
    h("h1", { class: "hidden" }, "Schemas"),
    h("section", { "aria-labelledby": "subjects" },
      h("h2", { id: "subjects" }, "Subjects ", h("span", { class: "quiet" }, counted(data.subjects.length, "subject"))),
      h("div", { class: "bar" }, h("input", { type: "search", id: "search", "aria-label": "Find subjects", placeholder: "Find subjects (press /)", value: choice.containing,
        oninput: (event) => choose({ containing: event.target.value }) })),
      table("Subjects", [["Subject", "", "subject"], ["Type", "", "type"], ["Versions", "number", "-versions"], ["Id of the last", "number", "-id"], "Compatibility"], wanted.map((one) => ({
        key: one.subject, cells: [subjectLink(one.subject), one.type, number(one.version_count), number(one.id), one.compatibility],
      })), data.subjects.length ? "No subject has this in its name." : "No schema is registered yet. A serializer registers one, or you do here.", { now: choice.sort, choose: (sort) => choose({ sort }) })),
    tryPart(""),
  ];
}

function renderSubject({ rerender }) {
  const { versions, subject } = data;
  const at = Math.max(versions.findIndex((one) => one.version === of.version), of.version === null ? versions.length - 1 : 0);
  const [shown, before] = [versions[at], versions[at - 1]];
  return [
    h("p", {}, link("/schemas", "← all subjects")),
    h("h1", {}, h("span", { class: "quiet" }, "subject "), visible(subject)),
    h("section", { "aria-labelledby": "versions" },
      h("h2", { id: "versions" }, "Versions ", h("span", { class: "quiet" }, `${counted(versions.length, "version")}, compatibility ${data.subjects.find((one) => one.subject === subject)?.compatibility ?? ""}`)),
      h("div", { class: "bar" }, field("Version", h("select", { id: "version", onchange: (event) => {
        of.version = Number(event.target.value);
        rerender();
      } }, versions.map((one) => option(String(one.version), `${one.version}, id ${one.id}`, one === shown))))),
      h("p", { class: "quiet" }, `${shown.type}, id ${shown.id}${shown.references.length ? `; refers to ${visible(shown.references.join("; "))}` : ""}`),
      h("pre", { class: "code tall", tabindex: "0", "aria-label": `Schema of version ${shown.version}` }, visible(spelt(shown.schema))),
      before && [h("h3", {}, `What changed since version ${before.version}`), difference(spelt(before.schema), spelt(shown.schema))]),
    tryPart(subject, shown),
  ];
}

/** Text of JSON in lines; another text as it is. */
function spelt(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// --- differences

const MOST_LINES = 1_000;

/** Lines that went and came, with those around them. */
function difference(before, now) {
  const [old, fresh] = [before.split("\n"), now.split("\n")];
  if (old.length > MOST_LINES || fresh.length > MOST_LINES) return h("p", { class: "quiet" }, `The schemas have more than ${number(MOST_LINES)} lines.`);
  const lines = compared(old, fresh);
  if (lines.every(([sign]) => sign === " ")) return h("p", { class: "quiet" }, "Nothing but how it is spelt.");
  const isNear = (at) => lines.slice(Math.max(at - 2, 0), at + 3).some(([sign]) => sign !== " ");
  const kinds = { "+": "line good", "-": "line bad", " ": "line quiet" };
  return h("pre", { class: "code tall", tabindex: "0", "aria-label": "Differences" }, lines.map(([sign, text], at) => (isNear(at) ? h("span", { class: kinds[sign] }, `${sign} ${visible(text)}`) : "")));
}

/** The longest common lines, and what is in one alone: [" ", "-" or "+", line] each. */
function compared(old, fresh) {
  const longest = Array.from({ length: old.length + 1 }, () => new Uint16Array(fresh.length + 1));
  for (let one = old.length - 1; one >= 0; one--) {
    for (let other = fresh.length - 1; other >= 0; other--) {
      longest[one][other] = old[one] === fresh[other] ? longest[one + 1][other + 1] + 1 : Math.max(longest[one + 1][other], longest[one][other + 1]);
    }
  }
  const lines = [];
  let [one, other] = [0, 0];
  while (one < old.length || other < fresh.length) {
    if (one < old.length && other < fresh.length && old[one] === fresh[other]) {
      lines.push([" ", old[one]]);
      one += 1;
      other += 1;
    } else if (other >= fresh.length || (one < old.length && longest[one + 1][other] >= longest[one][other + 1])) lines.push(["-", old[one++]]);
    else lines.push(["+", fresh[other++]]);
  }
  return lines;
}

// --- a schema tried, and registered

function tryPart(subject, shown) {
  const entered = (id) => document.getElementById(id).value;
  const request = (what) => () => {
    const name = subject || entered("try-subject");
    if (!name) throw new Error("The schema needs a subject, such as orders-value.");
    if (!entered("try-schema").trim()) throw new Error("There is no schema.");
    return ["POST", path`/subjects/${name}/${what}`, { schema: entered("try-schema"), type: entered("try-type") }];
  };
  const keep = (found) => {
    of.tried = found;
    return "The registry has looked at it.";
  };
  const [checked, type] = [of.tried, shown?.type ?? "AVRO"];
  return h("section", { "aria-labelledby": "try" },
    h("h2", { id: "try" }, "Try a schema"),
    h("div", { class: "form" },
      !subject && field("Subject", h("input", { id: "try-subject", spellcheck: "false", placeholder: "orders-value" })),
      field("Type", h("select", { id: "try-type" }, ["AVRO", "JSON", "PROTOBUF"].map((one) => option(one, one, one === type))))),
    h("div", { class: "form" },
      h("label", { class: "field wide" }, h("span", {}, "Schema"), h("textarea", { id: "try-schema", class: "wide mono", rows: 8, spellcheck: "false" })),
      actions(action("Check", request("check"), { hint: "Asks the registry whether it is compatible; registers nothing", done: keep }),
        action("Register", request("versions"), { hint: "Registers the schema under the subject, as a serializer does", done: (made) => `${made.subject} has it as version ${made.version}, with id ${made.id}.` }))),
    checked && (checked.is_compatible ? h("p", { class: "good", role: "status" }, "It is compatible: it can be registered.")
      : h("div", { role: "status" }, h("p", { class: "bad" }, "It is not compatible."), h("ul", {}, checked.messages.map((one) => h("li", {}, visible(one)))))));
}
