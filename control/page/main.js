// The frame of the page: which view is shown, when it is brought up to date, keys, and light or dark.

import { get, Problem, setToken, takeToken, unreachable } from "/page/api.js";
import { h, show } from "/page/dom.js";
import * as overview from "/page/overview.js";
import { action, actions, link, onAction, showDialog, tell } from "/page/parts.js";
import { isHeard, listen } from "/page/stream.js";
import { ahead, clockTime, counted, duration } from "/page/words.js";

const EVERY_MS = 2_000;
/** While the stream of events is open and nothing goes on. */
const IDLE_MS = 10_000;
/** Events that come together are one change. */
const TOGETHER_MS = 300;
/** A view that is there by then needs no word about its loading. */
const SOON_MS = 120;

/** The modules of the other views come so long after the first view, which does not wait for them. */
const FETCHED_MS = 300;

const VIEWS = [
  ["o", "/", "Overview", () => overview],
  ["t", "/topics", "Topics", () => import("/page/topics.js")],
  ["r", "/requests", "Requests", () => import("/page/requests.js")],
  ["g", "/groups", "Groups", () => import("/page/groups.js")],
  ["s", "/schemas", "Schemas", () => import("/page/schemas.js")],
  ["f", "/faults", "Faults and clock", () => import("/page/faults.js")],
  ["c", "/cluster", "Cluster", () => import("/page/cluster.js")],
];
/** Letter after g, address, name, module. A module has `title`, `load`, which asks the API, and `render`. */

const WITHOUT_LINK = [
  ["", "/topics/", "Topic", () => import("/page/topic.js")],
];
/** Those of one thing, which the address names behind the slash. */

const KEYS = [
  ["/", "search in this view"],
  ["?", "show these keys"],
  ["d", "dark or light"],
  ["g, then the letter below", "go to a view"],
];

const main = document.getElementById("main");
let shownState = null;
let current = null;
let timer = 0;
let loading = null;
let again = null;
let activity = "";
let isIdle = false;
let isGone = false;
let heardAt = 0;
let nudge = 0;

function place() {
  const [name, query] = (location.hash.slice(1) || "/").split("?");
  const parts = name.split("/").filter(Boolean).map(decoded);
  return { name, parts, query: new URLSearchParams(query ?? "") };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function viewOf({ parts }) {
  if (parts[0] === undefined) return overview;
  const found = (address) => [...VIEWS, ...WITHOUT_LINK].find((one) => one[1] === address);
  const entry = (parts[1] && found(`/${parts[0]}/`)) ?? found(`/${parts[0]}`);
  try {
    return entry ? await entry[3]() : overview;
  } catch {
    throw unreachable();
  }
}

/** Have the modules of all views here, before the server may be gone. */
function fetchViews() {
  for (const [, , , module] of [...VIEWS, ...WITHOUT_LINK]) Promise.resolve(module()).catch(() => {}); // it is asked for again when it is shown
}

/** Load the view of the address, and show it. Calls while one runs are one more at its end. */
async function refresh({ isForced = false } = {}) {
  if (loading) {
    again = { isForced: isForced || (again?.isForced ?? false) };
    return;
  }
  loading = once(isForced);
  try {
    await loading;
  } finally {
    loading = null;
  }
  if (again) {
    const next = again;
    again = null;
    await refresh(next);
  }
}

/** Something has changed. */
function changed() {
  if (!nudge) {
    nudge = setTimeout(() => {
      nudge = 0;
      refresh();
    }, TOGETHER_MS);
  }
}

async function once(isForced) {
  clearTimeout(timer);
  const here = place();
  const context = { params: here.parts.slice(1), query: here.query, isForced };
  context.rerender = () => {
    if (context.view) show(main, ...context.view.render(context)); // what needs no answer of the server shows at once
    refresh();
  };
  context.shown = () => {
    if (context.view && place().name === here.name) show(main, ...context.view.render(context));
  };
  const waiting = current === here.name ? 0 : setTimeout(() => {
    main.setAttribute("aria-busy", "true");
    show(main, h("p", { class: "quiet" }, "Loading …"));
  }, SOON_MS);
  try {
    const asked = get("/overview");
    const view = await viewOf(here);
    const early = view.early?.(context); // with the overview, not after it
    early?.catch(() => {}); // `load` awaits it
    const state = (shownState = context.state = await asked);
    const wasActivity = activity;
    activity = JSON.stringify([state.revision, state.traffic, state.rule_count, state.held_count, state.client_count]);
    isIdle = activity === wasActivity;
    await view.load(context);
    if (place().name !== here.name) return;
    const isNew = current !== here.name;
    current = here.name;
    clearTimeout(waiting);
    main.removeAttribute("aria-busy");
    if (!heardAt) setTimeout(fetchViews, FETCHED_MS);
    heardAt = Date.now();
    isGone = false;
    const title = view.titleOf ? view.titleOf(context) : view.title;
    context.view = view;
    document.title = `${title} · kmini`;
    header(here);
    show(main, ...view.render(context));
    listen(document.hidden ? [] : view.events ?? [], view.topicOf?.(context), changed);
    if (isNew) document.documentElement.dataset.ready = here.name;
  } catch (error) {
    if (!(error instanceof Problem)) console.error(error);
    failed(error, here);
  } finally {
    clearTimeout(waiting);
    clearTimeout(timer);
    if (!document.getElementById("token")) timer = setTimeout(tick, isIdle && isHeard() ? IDLE_MS : context.view?.everyMs ?? EVERY_MS);
  }
}

function failed(error, here) {
  isGone = error.status === 0;
  if (isGone && current === here.name) return header(here); // what is shown stays, and the header says from when it is
  current = null;
  main.removeAttribute("aria-busy");
  header(here);
  if (error.status === 401) return askForToken();
  show(main, h("section", { class: "look" }, h("h1", {}, error.status === 0 ? "The server does not answer" : "This cannot be shown"),
    h("p", {}, error.message), h("p", { class: "buttons" },
      error.message.includes("/api/v1/start") && actions(action("Start", () => ["POST", "/start", {}], { hint: "Starts what was stopped, with its data", done: "It runs." })), link("/", "To the overview"))));
}

function askForToken() {
  if (document.getElementById("token")) return;
  show(main, h("section", { class: "look" }, h("h1", {}, "This server wants a token"),
    h("p", {}, "kmini printed a link with it when it started, or it is what KMINI_HTTP_TOKEN says. The page keeps it in memory until it is closed or loaded again."),
    h("form", { class: "form", onsubmit: (event) => {
      event.preventDefault();
      setToken(document.getElementById("token").value);
      document.getElementById("token").remove();
      refresh({ isForced: true });
    } }, h("label", { class: "field" }, h("span", {}, "Token"), h("input", { id: "token", type: "password", autocomplete: "off" })),
      h("button", {}, "Use it"))));
  document.getElementById("token").focus();
}

function tick() {
  if (document.hidden) listen([]); // a tab that is looked at again begins anew
  else refresh();
}

function header(here) {
  const state = shownState;
  document.documentElement.toggleAttribute("data-gone", isGone);
  document.getElementById("dot").className = isGone ? "dot gone" : state?.brokers.every((one) => one.is_running) ? "dot up" : "dot";
  show(document.getElementById("gone"), isGone && heardAt > 0 && `The server does not answer. What is shown is from ${new Date(heardAt).toLocaleTimeString("en-GB")}; the page goes on asking.`);
  if (state) {
    const addresses = state.brokers.map((one) => one.address).filter(Boolean);
    show(document.getElementById("server"), addresses.length > 1 ? counted(addresses.length, "broker") : addresses[0] ?? "not running",
      h("span", { class: "quiet" }, ` up ${duration(state.up_ms)}`));
  }
  show(document.getElementById("nav"), h("ul", {}, VIEWS.map(([key, address, name]) => {
    const isHere = address === "/" ? !here.parts.length : here.parts[0] === address.slice(1);
    return h("li", {}, h("a", { href: `#${address}`, "aria-current": isHere ? "page" : undefined, title: `Keys: g ${key}` }, name));
  })));
  show(document.getElementById("tools"),
    state && h("span", { class: state.ahead_ms ? "moved" : "quiet" },
      state.moves_to_ms ? `the clock is moving: ${clockTime(state.now_ms).slice(0, 16)} on the way to ${clockTime(state.moves_to_ms).slice(0, 16)}` : `clock: ${ahead(state.ahead_ms)}`),
    state?.moves_to_ms && actions(action("Stop", () => ["POST", "/clock/stop-moving", {}], { hint: "Ends the move of the clock where it has come to", name: "Stop the clock's move", done: "The clock stays where it is." })),
    state && state.rule_count > 0 && h("span", { class: "moved" }, counted(state.rule_count, "fault rule")),
    h("button", { type: "button", id: "help", onclick: help, title: "Shortcuts of the keyboard (?)" }, "Shortcuts"),
    h("button", { type: "button", id: "theme", onclick: toggleTheme, title: "Dark or light (d)" }, isDark() ? "Light" : "Dark"));
}

// --- dark and light

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function toggleTheme() {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("kmini-theme", chosen);
  } catch {
    // without storage the choice holds until the page is loaded again
  }
  header(place());
}

function rememberedTheme() {
  try {
    const chosen = localStorage.getItem("kmini-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch {
    // the system's choice holds
  }
}

// --- keys

let isGoing = false;

function help() {
  const rows = [...KEYS, ...VIEWS.map(([key, , name]) => [`g ${key}`, name])];
  showDialog("Shortcuts", h("dl", { class: "keys" }, rows.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("dialog").open) return;
  const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select");
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (isGoing) {
    isGoing = false;
    const view = VIEWS.find(([key]) => key === event.key);
    if (view) {
      location.hash = view[1];
      event.preventDefault();
    }
    return;
  }
  const act = { "/": focusSearch, "?": help, d: toggleTheme, g: () => (isGoing = true) }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function focusSearch() {
  const found = document.getElementById("search");
  if (found) found.focus();
  else tell("There is nothing to search in this view.");
}

/** Keys show in words what the mouse shows by pointing: the hint of the button that has the focus. */
function showHint() {
  const has = document.activeElement;
  const hint = document.getElementById("hint");
  hint.textContent = has?.matches("button[title]:focus-visible, a[title]:focus-visible") ? has.title : "";
}

for (const type of ["focusin", "focusout"]) document.addEventListener(type, () => queueMicrotask(showHint));
document.addEventListener("keydown", onKey);
document.getElementById("skip").onclick = (event) => {
  event.preventDefault();
  main.focus();
};
addEventListener("hashchange", () => {
  takeToken();
  refresh({ isForced: true });
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
onAction(() => refresh({ isForced: true }));

rememberedTheme();
takeToken();
header(place());
refresh({ isForced: true });
