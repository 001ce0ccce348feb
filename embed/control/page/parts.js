// What several views use: actions with their curl, tables, lines of a chart, messages.

import { asCurl, send } from "/page/api.js";
import { h, s } from "/page/dom.js";
import { visible } from "/page/words.js";

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

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`Copied ${what}.`);
  } catch {
    showDialog(`Copy ${what}`, [h("p", {}, "The browser lets no page on this address write to the clipboard. Select and copy:"),
      h("textarea", { readonly: true, rows: 6, "aria-label": what, value: text })]);
  }
}

export function showDialog(title, nodes) {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), ...nodes,
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  if (!dialog.open) dialog.showModal();
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
 * A button for a request, and one that copies it as curl.
 * `request` is a function that returns [verb, address, body]; it may throw an Error that says what is missing.
 */
export function action(label, request, { done = `${label}: done.`, sure, title, after, danger = false } = {}) {
  const checked = (use) => async () => {
    let found;
    try {
      found = request();
    } catch (error) {
      tell(error.message, true);
      return;
    }
    await use(found);
  };
  return h("span", { class: "action" },
    h("button", {
      type: "button", class: danger ? "danger" : undefined, title,
      onclick: checked(async ([verb, address, body]) => {
        if (sure && !(await confirmed(sure))) return;
        if ((await run(verb, address, body, done)) && after) after();
      }),
    }, label),
    h("button", {
      type: "button", class: "curl", "aria-label": `Copy as curl: ${label}`, title: "Copy as curl",
      onclick: checked(([verb, address, body]) => copy(asCurl(verb, address, body), `“${label}” as curl`)),
    }, "curl"));
}

function confirmed(question) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const answer = (value) => () => {
      dialog.onclose = null;
      dialog.close();
      resolve(value);
    };
    dialog.onclose = () => resolve(false);
    dialog.replaceChildren(h("h2", { id: "dialog-title" }, question),
      h("p", { class: "buttons" }, h("button", { type: "button", class: "danger", onclick: answer(true) }, "Yes, do it"),
        h("button", { type: "button", onclick: answer(false), autofocus: true }, "No")));
    dialog.showModal();
  });
}

/** A table. `columns` are texts, or [text, class]; `rows` are arrays of cells with a `key`. */
export function table(caption, columns, rows, empty) {
  const heads = columns.map((column) => (Array.isArray(column) ? column : [column, ""]));
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  return h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": `${caption}, table` },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map(([text, kind]) => h("th", { scope: "col", class: kind || undefined }, text)))),
      h("tbody", {}, rows.map(({ key, cells, kind }) => h("tr", { "data-key": key, class: kind },
        cells.map((cell, at) => h("td", { class: heads[at][1] || undefined }, cell)))))));
}

/** A small chart of the last numbers. Its text is beside it. */
export function sparkline(numbers, width = 96, height = 22) {
  const most = Math.max(...numbers, 1e-9);
  const step = width / Math.max(numbers.length - 1, 1);
  const points = numbers.map((one, at) => `${(at * step).toFixed(1)},${(height - 1 - (one / most) * (height - 2)).toFixed(1)}`);
  return s("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", focusable: "false" },
    s("polyline", { points: points.join(" "), fill: "none" }));
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
