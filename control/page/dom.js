// Makes elements and brings what is shown up to date. Text becomes text nodes: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element[name] = value;
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** An element of HTML. A function among the attributes is a handler: { onclick: … }. */
export const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const s = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "ontoggle"];
const ENTERED = new Set(["INPUT", "TEXTAREA", "SELECT"]);

/** Make `shown` like `fresh`, keeping the elements that are there: the focus, the selection and entered text stay. */
export function patch(shown, fresh) {
  if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== fresh.data) shown.data = fresh.data;
    return;
  }
  for (const name of HANDLERS) if (shown[name] !== fresh[name]) shown[name] = fresh[name];
  const isKept = (name) => name === "open" && shown.nodeName === "DETAILS"; // who looks folds and unfolds
  for (const { name } of [...shown.attributes]) if (!fresh.hasAttribute(name) && !isKept(name)) shown.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (!isKept(name) && shown.getAttribute(name) !== value && (name !== "value" || shown.nodeName === "OPTION")) shown.setAttribute(name, value);
  }
  if (!ENTERED.has(shown.nodeName) || (shown.nodeName === "SELECT" && shown !== document.activeElement)) {
    const chosen = shown.nodeName === "SELECT" ? shown.value : null;
    patchChildren(shown, fresh);
    if (chosen !== null) shown.value = [...shown.options].some((one) => one.value === chosen) ? chosen : fresh.value;
  }
}

function patchChildren(shown, fresh) {
  const keyed = new Map();
  for (const child of shown.children) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  let at = shown.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.dataset?.key;
    let found = key ? keyed.get(key) : at;
    if (found && (found.nodeName !== wanted.nodeName || found.dataset?.key !== key)) found = undefined;
    if (!found) {
      shown.insertBefore(wanted, at);
      continue;
    }
    if (found !== at) shown.insertBefore(found, at);
    else at = at.nextSibling;
    patch(found, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Show these nodes in an element. */
export function show(element, ...nodes) {
  const fresh = element.cloneNode(false);
  make(fresh, {}, nodes);
  patchChildren(element, fresh);
}
