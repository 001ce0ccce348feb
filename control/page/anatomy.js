// The log of a partition as a picture: offsets, segments, what is clean, and how far each replica is.

import { h, s } from "/page/dom.js";
import { counted, duration, number, size, visible } from "/page/words.js";

const WIDTH = 1000;
const BAR = 24;

export const fileName = (offset) => `${String(offset).padStart(20, "0")}.log`;

/** The place of an offset, with as much room for each segment as it has offsets, or bytes. */
function scale(log, by) {
  const { log_start_offset: start, log_end_offset: end } = log.offsets;
  if (end === start) return () => 0;
  if (by === "offsets") return (offset) => ((Math.min(Math.max(offset, start), end) - start) / (end - start)) * WIDTH;
  const sum = log.segments.reduce((all, one) => all + one.size_bytes, 0) || 1;
  return (offset) => {
    let before = 0;
    for (const [at, one] of log.segments.entries()) {
      const from = Math.max(one.base_offset, start);
      const to = log.segments[at + 1]?.base_offset ?? end;
      if (offset < to || at === log.segments.length - 1) {
        const part = to > from ? Math.min(Math.max((offset - from) / (to - from), 0), 1) : 0;
        return ((before + part * one.size_bytes) / sum) * WIDTH;
      }
      before += one.size_bytes;
    }
    return WIDTH;
  };
}

/** The parts of a log: kind, words, and from which offset to which. */
function parts(log, transactions) {
  const { log_start_offset: start, last_stable_offset: stable, high_watermark: high, log_end_offset: end } = log.offsets;
  const found = [];
  if (log.cleaner) {
    const dirty = Math.min(Math.max(log.cleaner.first_dirty_offset, start), end);
    const held = Math.min(Math.max(log.cleaner.end_offset, dirty), end);
    found.push(["clean", "clean: one record for each key", start, dirty],
      log.cleaner.uncleanable ? ["stuck", "uncleanable: the cleaner has failed here, and leaves it alone until the broker starts again", dirty, held]
        : ["dirty", "dirty: the next compaction cleans it", dirty, held],
      ["held", `not cleanable yet: ${whyHeld(log)}`, held, end]);
  } else {
    found.push(["plain", "records", start, end]);
  }
  const open = transactions.length ? transactions.map((one) => `'${visible(one.transactional_id)}'`).join(", ") : "an open transaction";
  if (stable < high) found.push(["open", `from the first record of ${open} on: consumers at read_committed wait`, stable, high]);
  return found.filter(([, , from, to]) => to > from);
}

function whyHeld({ cleaner, segments, offsets }) {
  const active = segments[segments.length - 1].base_offset;
  if (cleaner.end_offset >= active) return "the active segment, which is written to";
  return offsets.last_stable_offset < active ? "an open transaction, or a replica that is behind, holds it back, and the active segment" : "younger than min.compaction.lag.ms, and the active segment";
}

/** Tombstones in words: how many, and from when on they may be removed. */
function tombstoneWords({ tombstone_count: count, batches, from_offset: from }, log, nowMs) {
  const known = batches.filter((one) => one.horizon_ms !== null);
  const waiting = batches.filter((one) => one.horizon_ms === null).reduce((sum, one) => sum + one.tombstones, 0);
  const words = [counted(count, "tombstone")];
  if (waiting) words.push(`${number(waiting)} of them get a delete horizon from the compaction that comes next`);
  if (known.length) {
    const first = Math.min(...known.map((one) => one.horizon_ms));
    words.push(first > nowMs ? `the first delete horizon passes in ${duration(first - nowMs)}: a compaction then removes them` : "a delete horizon has passed: the next compaction removes them");
  }
  if (from > log.offsets.log_start_offset) words.push(`counted from offset ${number(from)} on`);
  return words.join("; ");
}

/** The offsets with names, those that are equal together, in their order. */
function marks({ log_start_offset: start, last_stable_offset: stable, high_watermark: high, log_end_offset: end }) {
  const found = new Map();
  for (const [name, offset] of [["log start", start], ["last stable", stable], ["high watermark", high], ["end", end]]) {
    found.set(offset, [...(found.get(offset) ?? []), name]);
  }
  return [...found].map(([offset, names]) => ({ offset, text: `${names.join(" = ")} ${number(offset)}` }));
}

/** The picture. `more` has tombstones, open transactions, and the time of the log. */
export function anatomy(log, replicas, by, { tombstones = null, transactions = [], nowMs = 0 } = {}) {
  const { log_start_offset: start, log_end_offset: end } = log.offsets;
  const named = marks(log.offsets);
  const about = `Partition ${log.partition}: ${named.map((one) => one.text).join(", ")}; ${counted(log.segments.length, "segment")}, ${size(log.size_bytes)}`;
  if (end === start) {
    return h("p", { class: "quiet" }, end === 0 ? "Nothing was ever written to this partition." : `The log is empty: everything before offset ${number(end)} is deleted.`);
  }
  const x = scale(log, by);
  const top = 16 * named.length + 6;
  const batches = tombstones?.batches ?? [];
  const tombstonesAt = top + BAR + 5;
  const segmentsAt = tombstonesAt + (batches.length ? 13 : 3);
  const isDense = log.segments.length > 60;
  const replicasAt = segmentsAt + 44;
  const height = replicasAt + replicas.length * 20 + 4;
  const regions = parts(log, transactions);
  return h("div", {},
    s("svg", { class: "anatomy", viewBox: `-7 0 ${WIDTH + 14} ${height}`, role: "img", "aria-label": about },
      regions.map(([kind, text, from, to]) => s("rect", { class: kind, x: x(from), width: Math.max(x(to) - x(from), 1), ...(kind === "open" ? { y: top + BAR - 7, height: 7 } : { y: top, height: BAR }) },
        s("title", {}, `${text}: offsets ${number(from)} to ${number(to - 1)}`))),
      named.map((mark, at) => {
        const place = x(mark.offset);
        const isRight = place > WIDTH / 2;
        const y = 16 * at + 12;
        return [s("line", { class: "mark", x1: place, x2: place, y1: y - 8, y2: top + BAR + 4 }),
          s("text", { x: place + (isRight ? -6 : 6), y, "text-anchor": isRight ? "end" : "start" }, mark.text)];
      }),
      batches.map((one) => s("rect", { class: one.tombstones ? "tombstone" : "marker", x: x(one.base_offset), y: tombstonesAt, height: 8, width: Math.max(x(one.last_offset + 1) - x(one.base_offset), 2) },
        s("title", {}, `${one.tombstones ? counted(one.tombstones, "tombstone") : "a transaction marker"} in offsets ${number(one.base_offset)} to ${number(one.last_offset)}: ${
          one.horizon_ms === null ? "no delete horizon yet" : one.horizon_ms > nowMs ? `delete horizon in ${duration(one.horizon_ms - nowMs)}` : "delete horizon passed"}`))),
      log.segments.map((one, at) => {
        const from = x(Math.max(one.base_offset, start));
        const to = x(log.segments[at + 1]?.base_offset ?? end);
        const width = Math.max(to - from - (isDense ? 0.6 : 2), 0.6);
        return s("g", {}, s("rect", { class: `segment${one.is_active ? " active" : ""}${isDense ? " dense" : ""}`, x: from + (isDense ? 0.3 : 1), y: segmentsAt, width, height: 36, rx: isDense ? 0 : 3 },
          s("title", {}, `${fileName(one.base_offset)}, ${size(one.size_bytes)}${one.is_active ? ", active" : ""}`)),
          width > 110 && s("text", { x: from + 7, y: segmentsAt + 15 }, `segment from ${number(one.base_offset)}`),
          width > 110 && s("text", { class: "soft", x: from + 7, y: segmentsAt + 30 }, `${size(one.size_bytes)}${one.is_active && width > 130 ? ", active" : ""}`));
      }),
      replicas.map((one, at) => {
        const y = replicasAt + at * 20 + 10;
        const place = x(one.end ?? start);
        const isRight = place > WIDTH / 2;
        const text = one.end === null ? `broker ${one.broker}: does not run`
          : `broker ${one.broker}${one.isLeader ? " leads" : one.isInSync ? " in sync" : " NOT in sync"}, end ${number(one.end)}`;
        return [s("line", { class: "mark", "stroke-dasharray": "2 4", x1: 0, x2: place, y1: y, y2: y }),
          s("circle", { class: one.isInSync ? "follower" : "behind", cx: place, cy: y, r: 5 }),
          s("text", { x: place + (isRight ? -10 : 10), y: y - 4, "text-anchor": isRight ? "end" : "start" }, text)];
      })),
    h("ul", { class: "legend" }, regions.map(([kind, text]) => h("li", {}, h("span", { class: `swatch ${kind}` }), text)),
      batches.length > 0 && h("li", {}, h("span", { class: "swatch tombstone" }), tombstoneWords(tombstones, log, nowMs)),
      h("li", {}, `boxes: the files of the log, ${counted(log.segments.length, "segment")}`), replicas.length > 0 && h("li", {}, "dots: how far each replica is")));
}

/** The state of the cleaner in words. */
export function cleanerWords(cleaner, ratioWanted) {
  if (!cleaner) return null;
  const parts = [`${size(cleaner.cleanable_bytes)} of ${size(cleaner.clean_bytes + cleaner.cleanable_bytes)} are dirty, a share of ${cleaner.dirty_ratio.toFixed(2)}`];
  if (ratioWanted) parts.push(` (the cleaner comes by itself above ${ratioWanted}, min.cleanable.dirty.ratio)`);
  if (cleaner.must_clean_bytes) parts.push(`; ${size(cleaner.must_clean_bytes)} must be cleaned now by max.compaction.lag.ms`);
  if (cleaner.delay_ms) parts.push(`, late by ${duration(cleaner.delay_ms)}`);
  return [parts.join(""), ".", cleaner.uncleanable && h("strong", { class: "bad" }, ` Uncleanable: ${cleaner.uncleanable}`)];
}
