// What several views use: actions with their curl, tables, lines of a chart, messages.

import { asCurl, send } from "/page/api.js";
import { h, s } from "/page/dom.js";
import { counted, duration, number, shortened, visible } from "/page/words.js";

let refreshNow = () => {};

/** What brings the view up to date after an action. */
export function onAction(refresh) {
  refreshNow = refresh;
}

let hideTimer = 0;

/** Tell the result of an action; screen readers read it. */
export function tell(text, isError = false) {
  const status = document.getElementById("status");
  status.replaceChildren(text);
  status.className = isError ? "shown error" : "shown";
  clearTimeout(hideTimer);
  hideTimer = setTimeout(() => (status.className = ""), isError ? 15_000 : 5_000);
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export async function copy(text, what) {
  if (await toClipboard(text)) tell(`Copied ${what}.`);
  else {
    showDialog(`Copy ${what}`, h("p", {}, "The browser lets no page on this address write to the clipboard. Select and copy:"),
      h("textarea", { readonly: true, rows: 6, "aria-label": what, value: text }));
  }
}

export function showDialog(title, ...nodes) {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), h("div", {}, nodes),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  if (!dialog.open) dialog.showModal();
}

/** A number as JSON spells it: a browser's own has 53 bits. */
class Numeral {
  constructor(text) {
    this.text = text;
  }
}

const MOST_MEMBERS = 500;
const OPEN_LEVELS = 2;

/** JSON whose objects and arrays fold; null for a text that is neither. */
export function jsonOf(text) {
  try {
    const value = JSON.parse(text, (_, one, at) => (typeof one === "number" && at?.source ? new Numeral(at.source) : one));
    return value !== null && typeof value === "object" && !(value instanceof Numeral) ? h("div", { class: "json mono" }, folded(value)) : null;
  } catch {
    return null;
  }
}

function folded(value, label = "", level = 0) {
  if (value instanceof Numeral) return h("div", {}, label, value.text);
  if (value === null || typeof value !== "object") return h("div", {}, label, visible(JSON.stringify(value)));
  const isArray = Array.isArray(value);
  const members = Object.entries(value);
  const summary = isArray ? `[${number(members.length)}]` : `{${shortened(Object.keys(value).join(", "))}}`;
  if (!members.length) return h("div", {}, label, isArray ? "[]" : "{}");
  return h("details", { open: level < OPEN_LEVELS }, h("summary", {}, label, summary),
    members.slice(0, MOST_MEMBERS).map(([name, one]) => folded(one, `${isArray ? name : visible(JSON.stringify(name))}: `, level + 1)),
    members.length > MOST_MEMBERS && h("div", { class: "quiet" }, `and ${number(members.length - MOST_MEMBERS)} more`));
}

/** Send a request and tell what came of it; whether it was done. */
export async function run(verb, address, body, done) {
  try {
    const answer = await send(verb, address, body);
    tell(typeof done === "function" ? done(answer) : done);
    refreshNow();
    return true;
  } catch (error) {
    tell(error.message, true);
    return false;
  }
}

/**
 * A request for `actions`: what its button says, and what it does.
 * `request` is a function that returns [verb, address, body]; it may throw an Error that says what is missing.
 * `hint` is a sentence about what will happen, `sure` a question that is asked before, and `cannot` why it does not apply now.
 */
export const action = (label, request, options = {}) => ({ label, request, done: `${label}: done.`, ...options });

/**
 * Buttons for requests, and one that shows the same requests for a shell.
 * An element among them is shown as it is; { label, text } is one more text to copy.
 */
export function actions(...given) {
  const list = given.flat(Infinity).filter(Boolean);
  const copied = list.filter((one) => !(one instanceof Node));
  const title = copied.some((one) => one.text) ? "copy" : "curl";
  return h("span", { class: "actions" }, list.map((one) => (one instanceof Node ? one : one.text ? "" : button(one))),
    h("button", { type: "button", class: "curl", title: copied.length > 1 ? "Shows texts to copy: these requests as curl commands" : `Copies “${copied[0].label}” as a curl command`,
      "aria-label": [`Copy as curl: ${copied.filter((one) => !one.text).map((one) => one.label).join(", ")}`, ...copied.filter((one) => one.text).map((one) => one.label)].join("; "),
      onclick: () => (copied.length > 1 ? showTexts(copied) : ready(copied[0], (request) => copy(asCurl(...request), `“${copied[0].label}” as curl`))) }, title));
}

function button(one) {
  return h("button", { type: "button", class: one.danger ? "danger" : undefined, title: one.cannot ?? one.hint, "aria-label": one.name, "aria-disabled": one.cannot ? "true" : undefined,
    onclick: () => {
      if (one.cannot) tell(one.cannot, true);
      else ready(one, async ([verb, address, body]) => {
        if (one.sure && !(await confirmed(one))) return;
        if ((await run(verb, address, body, one.done)) && one.after) one.after();
      });
    } }, one.label);
}

function ready(one, use) {
  let request;
  try {
    request = one.request();
  } catch (error) {
    tell(error.message, true);
    return;
  }
  use(request);
}

function showTexts(list) {
  showDialog("Copy", h("dl", { class: "texts" }, list.map((one) => {
    let text;
    try {
      text = one.text ? one.text() : asCurl(...one.request());
    } catch (error) {
      return [h("dt", {}, one.label), h("dd", { class: "quiet" }, error.message)];
    }
    const name = one.text ? one.label : `Copy as curl: ${one.label}`;
    return [h("dt", {}, one.text ? one.label : `${one.label}, as curl`), h("dd", {}, h("pre", { class: "code", tabindex: "0", "aria-label": name }, visible(text)),
      h("button", { type: "button", "aria-label": name, onclick: async (event) => {
        const pressed = event.currentTarget;
        pressed.textContent = (await toClipboard(text)) ? "Copied" : "Select and copy";
      } }, "Copy"))];
  })));
}

function confirmed({ label, sure, hint }) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const answer = (value) => () => {
      dialog.onclose = null;
      dialog.close();
      resolve(value);
    };
    dialog.onclose = () => resolve(false);
    dialog.replaceChildren(h("h2", { id: "dialog-title" }, visible(sure)), h("p", {}, hint ?? ""),
      h("p", { class: "buttons" }, h("button", { type: "button", class: "danger", onclick: answer(true) }, label),
        h("button", { type: "button", onclick: answer(false), autofocus: true }, "No, leave it")));
    dialog.showModal();
  });
}

/**
 * A table. `columns` are texts, or [text, class, order]; `rows` are arrays of cells with a `key`.
 * With `sorting` a column that has an order sorts by a click: `now` is the present order, and `choose` takes another.
 * An order is a name, with a "-" before it from the highest to the lowest. A column's own comes first, by a second click the opposite.
 */
export function table(caption, columns, rows, empty, sorting) {
  const heads = columns.map((column) => (Array.isArray(column) ? column : [column, ""]));
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  return h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": `${caption}, table` },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => (sorting && head[2] ? sortingHead(head, sorting) : h("th", { scope: "col", class: head[1] || undefined }, head[0]))))),
      h("tbody", {}, rows.map(({ key, cells, kind }) => h("tr", { "data-key": key, class: kind },
        cells.map((cell, at) => h("td", { class: heads[at][1] || undefined }, cell)))))));
}

/** A table with a row for each item. A column is [heading, the cell of an item, class, order]: it stands in one place. */
export function tableOf(caption, items, key, columns, empty, sorting) {
  const rows = items.map((item) => ({ key: key(item), cells: columns.map(([, cell]) => cell(item)) }));
  return table(caption, columns.map(([heading, , kind = "", order]) => [heading, kind, order]), rows, empty, sorting);
}

const opposite = (order) => (order.startsWith("-") ? order.slice(1) : `-${order}`);

function sortingHead([text, kind, order], { now, choose }) {
  const isNow = now === order || now === opposite(order);
  const next = now === order ? opposite(order) : order;
  return h("th", { scope: "col", class: kind || undefined, "aria-sort": isNow ? (now.startsWith("-") ? "descending" : "ascending") : undefined },
    h("button", { type: "button", class: "sort", title: `Sorts by this column, the ${next.startsWith("-") ? "highest" : "lowest"} first`, onclick: () => choose(next) },
      text, isNow && h("span", { "aria-hidden": "true" }, now.startsWith("-") ? " ↓" : " ↑")));
}

/** A list in an order, as a column of a table has it: `values` has for each name what tells the value of an entry. */
export function inOrder(list, order, values) {
  const valueOf = values[order.replace("-", "")];
  const sign = order.startsWith("-") ? -1 : 1;
  return [...list].sort((one, other) => sign * (valueOf(one) < valueOf(other) ? -1 : Number(valueOf(one) > valueOf(other))));
}

/** A small chart of the last numbers. Its text is beside it. */
export function sparkline(numbers, width = 96, height = 22) {
  return s("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", focusable: "false" },
    s("line", { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }), curve(numbers.map((one, at) => [at, one]), width, height));
}

/** The line through points [x, number], and the area below it. */
function curve(points, width, height) {
  if (!points.length) return [];
  const first = points[0][0];
  const length = points[points.length - 1][0] - first || 1;
  const most = Math.max(...points.map(([, value]) => value), 1e-9);
  const places = points.map(([at, value]) => `${(((at - first) / length) * width).toFixed(1)},${(height - 1 - (value / most) * (height - 2)).toFixed(1)}`);
  if (points.length === 1) places.push(`${width},${places[0].split(",")[1]}`);
  return [s("polygon", { points: [`0,${height}`, ...places, `${width},${height}`].join(" ") }), s("polyline", { points: places.join(" "), fill: "none" })];
}

/** A chart of numbers over time with words at its axes. `points` are [milliseconds, number]. */
export function chart(about, points, noun, width = 620, height = 70) {
  const numbers = points.map(([, value]) => value);
  const most = Math.max(...numbers, 0);
  const passed = points.length > 1 ? points[points.length - 1][0] - points[0][0] : 0;
  return s("svg", { class: "chart", viewBox: `0 0 ${width + 130} ${height + 34}`, role: "img", "aria-label": `${about}: at most ${counted(most, noun)}, now ${counted(numbers[numbers.length - 1] ?? 0, noun)}` },
    s("line", { x1: 120, x2: 120, y1: 8, y2: height + 8 }), s("line", { x1: 120, x2: width + 120, y1: height + 8, y2: height + 8 }),
    s("text", { x: 112, y: 16, "text-anchor": "end" }, counted(most, noun)), most > 0 && s("text", { x: 112, y: height + 10, "text-anchor": "end" }, "0"),
    s("text", { x: 120, y: height + 28 }, passed > 999 ? `${duration(passed)} ago, when this page began to look` : "this page has just begun to look"),
    s("text", { x: width + 120, y: height + 28, "text-anchor": "end" }, "now"),
    s("g", { transform: "translate(120 8)" }, curve(points, width, height)));
}

export const link = (address, text, kind) => h("a", { href: `#${address}`, class: kind }, visible(text));

export const topicLink = (name, text = name) => link(`/topics/${encodeURIComponent(name)}`, text);
export const groupLink = (name) => link(`/groups/${encodeURIComponent(name)}`, name);

export function field(label, control, hint) {
  return h("label", { class: "field" }, h("span", {}, label), control, hint && h("small", {}, hint));
}

export const option = (value, text = value, selected = false) => h("option", { value, selected }, text);

export function tile(name, value, more) {
  return h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value, more && h("span", { class: "quiet" }, " ", more)));
}
