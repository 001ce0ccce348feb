// Numbers, times and sizes in words, and bytes as text.

/** A whole number with commas. Intl would take as long for its first one as the rest of a view. */
export const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** A number per second. */
export function rate(value) {
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(1) : number(Math.round(value));
}

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000]];

/** Milliseconds in the two largest units: "7 d 2 h". */
export function duration(ms) {
  let left = Math.max(ms < 10_000 ? Math.round(ms) : Math.round(ms / 1000) * 1000, 0);
  if (left < 1000) return `${left} ms`;
  const parts = [];
  for (const [name, length] of UNITS) {
    if (left >= length || parts.length) {
      parts.push([Math.floor(left / length), name]);
      left %= length;
    }
  }
  return parts.slice(0, 2).filter(([count], place) => place === 0 || count > 0).map(([count, name]) => `${count} ${name}`).join(" ");
}

export const ahead = (ms) => (ms === 0 ? "real time" : ms > 0 ? `${duration(ms)} ahead` : `${duration(-ms)} behind`);

export function ago(ms, now) {
  if (ms < 0) return "without a time";
  const passed = now - ms;
  return passed < -1000 ? `in ${duration(-passed)}` : passed < 1000 ? "now" : `${duration(passed).split(" ").slice(0, 2).join(" ")} ago`;
}

export function clockTime(ms) {
  return ms < 0 ? "—" : new Date(ms).toISOString().replace("T", " ").slice(0, 23);
}

/** How long a topic keeps its records. */
export function kept(row) {
  const parts = [];
  if (row.policy.includes("compact")) parts.push("last of each key");
  if (row.policy.includes("delete")) parts.push(row.retention_ms < 0 ? "for ever" : `for ${duration(row.retention_ms)}`);
  return parts.join(", ") || row.policy.join(", ");
}

// --- bytes

/** What the API gave as text or as base64, as text. */
export const given = (data) => (data === null ? null : typeof data === "string" ? data : decode(fromBase64(data.base64), "text"));

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}

const strict = () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Bytes as text, or as "hex". What is no UTF-8 is shown as hex. */
export function decode(bytes, as) {
  if (as !== "hex") {
    let text;
    try {
      text = strict().decode(bytes, { stream: true }); // the end may be cut within a character
    } catch {
      return hex(bytes);
    }
    return text;
  }
  return hex(bytes);
}

function hex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = bytes.subarray(at, at + 16);
    const digits = [...part].map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const letters = [...part].map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : "·")).join("");
    lines.push(`${at.toString(16).padStart(4, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

/** Data that the API gave with decode=schema: their text, the schema that they have, and why they could not be decoded. */
export function bySchema(data) {
  if (data.schema) {
    const line = JSON.stringify(data.json);
    return { text: line.length <= 100 ? line : JSON.stringify(data.json, null, 2), schema: data.schema };
  }
  if (data.problem) return { text: hex(Uint8Array.from(data.hex.match(/../g) ?? [], (two) => parseInt(two, 16))), problem: data.problem };
  return { text: given(data) };
}

/** Letters that a text may hide in, and that turn the direction of writing, become visible. */
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function shortened(text, most = 60) {
  const line = visible(text.replaceAll(/\s+/g, " "));
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
