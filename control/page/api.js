// Asks the control API, and writes the same request as curl. The token is kept in memory only.

const PREFIX = "/api/v1";

let token = null;

/** Take the token from the fragment of the link, and take it out of the address bar. */
export function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found === null) return;
  token = found;
  history.replaceState(null, "", `${location.pathname}#/`);
}

export function setToken(given) {
  token = given.trim() || null;
}

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The server answered ${status}`);
    this.status = status;
    this.errors = document.errors ?? [];
  }
}

/** The error where no server answers. */
export const unreachable = () => new Problem(0, { detail: "The server cannot be reached: it has stopped, or the network is down." });

/** A path from a template: each value is escaped. path`/topics/${name}/roll` */
export function path(parts, ...values) {
  return parts.reduce((whole, part, number) => whole + encodeURIComponent(values[number - 1]) + part);
}

export function withQuery(address, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${address}?${new URLSearchParams(given)}` : address;
}

/** Send a request; the answer as JSON, null if it has none. Raises Problem. */
export async function send(verb, address, body) {
  const headers = {};
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(PREFIX + address, {
      method: verb,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
    });
  } catch {
    throw unreachable();
  }
  const text = await answer.text();
  if (!answer.ok) {
    let document = {};
    try {
      document = JSON.parse(text);
    } catch {
      document.title = `The server answered ${answer.status}`;
    }
    throw new Problem(answer.status, document);
  }
  return text ? JSON.parse(text) : null;
}

export const get = (address, query = {}) => send("GET", withQuery(address, query));

/** The body of an answer that does not end. Raises if there is none. */
export async function openStream(address, query, signal) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(PREFIX + withQuery(address, query), { headers, signal, cache: "no-store", credentials: "omit" });
  if (!answer.ok) throw new Problem(answer.status, {});
  return answer.body;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The same request for a shell. The token is named by its variable, and not written. */
export function asCurl(verb, address, body) {
  const parts = ["curl"];
  if (verb !== "GET") parts.push("-X", verb);
  parts.push(quoted(location.origin + PREFIX + address));
  if (token !== null) parts.push('-H "Authorization: Bearer $KMINI_HTTP_TOKEN"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", "-d", quoted(JSON.stringify(body)));
  return parts.join(" ");
}
