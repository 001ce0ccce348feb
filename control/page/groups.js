// Consumer groups with their members and their lag, and open transactions.

import { get, path } from "/page/api.js";
import { h } from "/page/dom.js";
import { action, actions, chart, field, groupLink, inOrder, link, option, sparkline, table, tableOf, topicLink } from "/page/parts.js";
import { counted, duration, number, shortened, visible } from "/page/words.js";

export const title = "Groups";
export const events = ["groups", "transactions", "records"];
export const titleOf = ({ params }) => (params[0] ? `Group ${params[0]}` : title);

/** Readings of a lag that are kept, one every two seconds while records come. */
const HISTORY = 300;

const choice = { containing: "", sort: "name" };
const ORDERS = { name: (one) => one.name, state: (one) => one.state, members: (one) => one.member_count, lag: (one) => sum(Object.values(one.lags)) };
/** Ranges of records in flight that are shown of a partition. */
const IN_FLIGHT = 10;
const lagHistory = new Map();
let data = { groups: [], transactions: [], group: null };

const STATES = {
  Stable: "every member has its partitions",
  Empty: "no member is connected",
  PreparingRebalance: "a rebalance: members are joining",
  CompletingRebalance: "a rebalance: the leader assigns partitions",
  Assigning: "the coordinator assigns partitions",
  Reconciling: "members give up and take over partitions",
  Dead: "the group is gone",
};

/** Where members of a consumer group are on their way to their targets. */
const MEMBER_STATES = {
  UNREVOKED_PARTITIONS: "gives up partitions",
  UNRELEASED_PARTITIONS: "waits for partitions of others",
};

/** The generation of a group, or the epochs of a consumer group, in words. */
const generationOf = (one) => one.kind === "classic" ? `generation ${one.generation}`
  : `group epoch ${one.generation}${one.assignment_epoch === one.generation ? "" : `, assignment epoch ${one.assignment_epoch}`}`;

const lags = (key) => (lagHistory.get(key) ?? []).map(([, lag]) => lag);

const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

export async function load({ params }) {
  const [groups, transactions] = await Promise.all([get("/overview/groups"), get("/transactions")]);
  data.groups = groups;
  data.transactions = transactions;
  for (const group of groups) if (group.name !== params[0]) note(group.name, sum(Object.values(group.lags)));
  data.group = params[0] ? await loadGroup(params[0]) : null;
}

function note(key, lag) {
  const list = lagHistory.get(key) ?? [];
  list.push([performance.now(), lag]);
  if (list.length > HISTORY) list.shift();
  lagHistory.set(key, list);
}

async function loadGroup(name) {
  const [about, positions, departures] = await Promise.all([
    get(path`/groups/${name}`), get(path`/overview/groups/${name}/positions`), get(path`/groups/${name}/departures`)]);
  for (const [place, { behind }] of Object.entries(positions)) if (behind !== null) note(`${name}\n${place}`, behind);
  note(name, behindOf(positions));
  return { name, about, positions, departures, places: Object.keys(positions).sort() };
}

/** One sum for the heading and the chart, of figures of one moment. */
const behindOf = (positions) => sum(Object.values(positions).map((one) => one.behind ?? 0));

const topicOf = (place) => place.slice(0, place.lastIndexOf("-"));

export function render(context) {
  return data.group ? renderGroup(data.group) : renderAll(context);
}

const stateOf = (state) => [h("span", { class: `badge ${state === "Stable" ? "good" : state === "Empty" ? "" : "bad"}` }, state), h("span", { class: "quiet" }, ` ${STATES[state] ?? ""}`)];

/** The members that a rebalance waits for, and how long it still does. */
function awaited(rebalance) {
  if (!rebalance) return "";
  const names = rebalance.awaited.map((one) => visible(one.client_id || one.member_id));
  const left = rebalance.remaining_ms === null ? "" : `${duration(rebalance.remaining_ms)} left`;
  const what = { JoinGroup: "to join again", SyncGroup: "to ask for its assignment" }[rebalance.request] ?? (left ? "to give up partitions" : "to take over its partitions");
  if (!names.length) return h("div", { class: "waits" }, `first members have time to join: ${left}`);
  return h("div", { class: "waits" }, "waits for ", h("strong", {}, names.slice(0, 5).join(", ")), names.length > 5 && ` and ${names.length - 5} more`, ` ${what}`,
    left && `; ${left}, then the group goes on without ${names.length > 1 ? "them" : "it"}`);
}

function renderAll({ rerender }) {
  const wanted = inOrder(data.groups.filter((one) => one.name.toLowerCase().includes(choice.containing.toLowerCase())), choice.sort, ORDERS);
  return [
    h("h1", { class: "hidden" }, "Groups"),
    h("section", { "aria-labelledby": "groups" },
      h("h2", { id: "groups" }, "Groups"),
      h("div", { class: "bar" }, h("input", { type: "search", id: "search", "aria-label": "Find groups", placeholder: "Find groups (press /)", value: choice.containing, oninput: (event) => {
        choice.containing = event.target.value;
        rerender();
      } })),
      tableOf("Groups", wanted.slice(0, 300), (one) => one.name, [
        ["Group", (one) => groupLink(one.name), "", "name"],
        ["Protocol", (one) => one.kind],
        ["State", (one) => [stateOf(one.state), awaited(one.rebalance)], "", "state"],
        ["Members", (one) => number(one.member_count), "number", "-members"],
        ["Assignor", (one) => one.protocol ?? "—"],
        ["Lag: committed offsets are behind by", (one) => [sparkline(lags(one.name)), counted(sum(Object.values(one.lags)), "record")], "", "-lag"],
        ["By topic", (one) => Object.entries(one.lags).map(([topic, lag], at) => [at ? ", " : "", topicLink(topic), lag ? ` ${counted(lag, "record")} behind` : " caught up"])],
        ["Coordinator", (one) => `broker ${one.coordinator}`],
      ], data.groups.length ? "No group has this in its name." : "No consumer has joined a group, and no offset is committed.", {
        now: choice.sort, choose: (sort) => {
          choice.sort = sort;
          rerender();
        },
      })),
    transactionsPart(),
  ];
}

/** What a share group has in flight in a partition, as far as it fits. */
function inFlight(records) {
  const shown = records.slice(0, IN_FLIGHT).map((one) => h("div", {}, `${one.first_offset}${one.last_offset > one.first_offset ? `–${one.last_offset}` : ""} ${one.state}${one.member_id ? ` by ${shortened(one.member_id, 30)}` : ""}, delivered ${counted(one.delivery_count, "time")}`));
  return records.length ? [shown, records.length > IN_FLIGHT && h("div", { class: "quiet" }, `and ${records.length - IN_FLIGHT} more`)] : h("span", { class: "quiet" }, "nothing");
}

function transactionsPart() {
  return h("section", { "aria-labelledby": "transactions" },
    h("h2", { id: "transactions" }, "Open transactions"),
    table("Open transactions", ["Transactional id", "State", "Open for", "Producer", "Partitions", ""], data.transactions.map((one) => ({
      key: one.transactional_id,
      cells: [visible(one.transactional_id), one.state, `${duration(one.age_ms)} of ${duration(one.timeout_ms)}, then it is aborted`, `id ${one.producer_id}, epoch ${one.producer_epoch}`,
        [one.partitions.map((place, at) => [at ? ", " : "", topicLink(topicOf(place), place)]), one.partitions.length > 0 && h("div", { class: "quiet" }, "consumers at read_committed wait there")],
        actions(action("Abort", () => ["POST", path`/transactions/${one.transactional_id}/abort`, {}], { danger: true, sure: `Abort the transaction of ${one.transactional_id}?`, name: `Abort ${one.transactional_id}`,
          hint: "Aborts it as its time-out does: its records stay hidden at read_committed, and its producer is fenced", done: "The transaction is aborted, and its producer fenced." }))],
    })), "No transaction is open."));
}

function renderGroup({ name, about, positions, departures, places }) {
  const rebalance = data.groups.find((one) => one.name === name)?.rebalance;
  const isAwaited = (member) => rebalance?.awaited.some((one) => one.member_id === member.member_id);
  const shared = about.kind === "share" ? new Map(about.share_partitions.map((one) => [one.partition, one])) : undefined;
  const startOf = (place) => (shared ? shared.get(place)?.start_offset : positions[place].committed) ?? null;
  const owner = new Map(about.members.flatMap((member) => member.assignment.map((place) => [place, member])));
  return [
    h("p", {}, link("/groups", "← all groups")),
    h("h1", {}, h("span", { class: "quiet" }, "group "), visible(name)),
    h("section", { "aria-labelledby": "members" },
      h("h2", { id: "members" }, "Members ", h("span", { class: "quiet" }, counted(about.members.length, "member"))),
      h("p", {}, stateOf(about.state), h("span", { class: "quiet" }, ` — ${generationOf(about)}${about.protocol ? `, assignor ${about.protocol}` : ""}, coordinator: broker ${about.coordinator}, protocol ${about.kind}`)),
      awaited(rebalance),
      table("Members", ["Client", "Member", "From", "Wants", "Has", ...(about.kind === "classic" ? [] : ["Is to have", "Epoch"]), ""], about.members.map((one) => ({
        key: one.member_id,
        cells: [[visible(one.client_id), isAwaited(one) && h("span", { class: "badge bad" }, "awaited")], h("code", { title: one.member_id }, one.instance_id ? `static: ${visible(one.instance_id)}` : shortened(one.member_id, 30)), one.address,
          [one.topics.map((topic, at) => [at ? ", " : "", topicLink(topic)]), one.topic_regex && h("div", {}, "expression ", h("code", {}, visible(one.topic_regex)))],
          one.assignment.length ? one.assignment.join(", ") : h("strong", { class: "bad" }, "no partition"),
          ...(about.kind === "classic" ? [] : [one.target.join(", ") || "nothing", [`${one.epoch}`, one.state !== "STABLE" && h("span", { class: "badge bad" }, MEMBER_STATES[one.state] ?? one.state), one.protocol === "classic" && h("span", { class: "badge" }, "classic protocol")]]),
          actions(action("Expel", () => ["POST", path`/groups/${name}/expel`, { member: one.member_id }], { danger: true, sure: `Expel ${one.client_id} from ${name}?`, name: `Expel ${one.client_id}`,
            hint: "Removes the member; the others take over its partitions, and its client joins again as a new member", done: "The member is out, and the others rebalance." }))],
      })), "No member is connected."),
      about.members.length > 0 && h("p", { class: "buttons" }, actions(action("Rebalance", () => ["POST", path`/groups/${name}/rebalance`, {}], {
        cannot: rebalance?.request === "JoinGroup" ? "A rebalance is in progress." : undefined, hint: about.kind === "classic" ? "Has all members join again, as if one had come or gone" : "Begins another group epoch, for which the assignment is computed anew", done: about.kind === "classic" ? "The members join again." : "The assignment is computed anew." }))),
      departures.length > 0 && h("details", {}, h("summary", {}, `${counted(departures.length, "member")} went`),
        h("ul", {}, departures.map((one) => h("li", {}, visible(`${one.client_id} ${one.is_expelled ? "was removed" : "left"} in ${about.kind === "classic" ? "generation" : "group epoch"} ${one.generation}${one.reason ? `: ${one.reason}` : ""}`)))))),
    h("section", { "aria-labelledby": "offsets" },
      h("h2", { id: "offsets" }, "Offsets ", h("span", { class: "quiet" }, `the group is ${counted(behindOf(positions), "record")} behind`)),
      places.length > 0 && chart("Lag over time", lagHistory.get(name) ?? [], "record"),
      table("Offsets", ["Partition", [shared ? "Start offset" : "Committed offset", "number"], ["High watermark", "number"], ["Behind", "number"], "Behind, since this page looks", shared ? "In flight" : "Read by"], places.map((place) => ({
        key: place,
        cells: [topicLink(topicOf(place), place), startOf(place) === null ? "nothing" : number(startOf(place)), positions[place].high_watermark === null ? "—" : number(positions[place].high_watermark),
          positions[place].behind === null ? "—" : h("span", { class: positions[place].behind ? "moved" : undefined }, counted(positions[place].behind, "record")), sparkline(lags(`${name}\n${place}`)),
          shared ? inFlight(shared.get(place)?.in_flight ?? []) : owner.has(place) ? visible(owner.get(place).client_id) : h("span", { class: "quiet" }, "nothing reads it")],
      })), shared ? "The group has read nothing." : "The group has committed nothing."),
      shared ? undefined : resetForm(name, places, positions, about)),
  ];
}

function resetForm(name, places, positions, about) {
  const of = (id) => document.getElementById(id).value;
  const request = () => {
    const [where, to] = [of("reset-where"), of("reset-to")];
    const chosen = places.filter((place) => where === "" || place === where);
    const found = {};
    for (const place of chosen) {
      const known = positions[place];
      if (to !== "offset" && known.high_watermark === null) throw new Error(`The offsets of ${place} are not known: it has no leader.`);
      if (to === "offset" && of("reset-offset") === "") throw new Error("Say which offset.");
      found[place] = to === "earliest" ? known.log_start_offset : to === "latest" ? known.high_watermark : Number(of("reset-offset"));
    }
    return ["PATCH", path`/groups/${name}/offsets`, { offsets: found }];
  };
  if (!places.length) return "";
  return h("details", {}, h("summary", {}, "Reset offsets"),
    about.members.length > 0 && h("p", { class: "quiet" }, "Kafka refuses a reset while the group has members: stop its consumers first."),
    h("div", { class: "form" },
      field("Of", h("select", { id: "reset-where" }, option("", "every partition"), places.map((place) => option(place)))),
      field("To", h("select", { id: "reset-to" }, option("earliest", "the first record"), option("latest", "the end"), option("offset", "the offset"))),
      field("Offset", h("input", { id: "reset-offset", type: "number", min: 0 })),
      actions(action("Reset offsets", request, { danger: true, sure: `Reset the offsets of ${name}?`, hint: "Commits these offsets in place of the group's own; its consumers begin there", done: "The offsets are reset.",
        cannot: about.members.length ? "Kafka refuses a reset while the group has members: stop its consumers first." : undefined }))));
}
