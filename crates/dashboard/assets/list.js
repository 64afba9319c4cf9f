// The list of all autoscalers: filter, sort, live updates.

import { createBlocks } from "./blocks.js";
import { breakable, byId, element, setText } from "./dom.js";
import { STATES, ago, count, duration, number } from "./format.js";

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const severity = Object.fromEntries(Object.keys(STATES).map((state, index) => [state, index]));
const byText = (key) => (a, b) => collator.compare(a[key], b[key]);
const byNumber = (value) => (a, b) => value(a) - value(b);

const scaledAt = ({ lastScale }) => (lastScale === null ? 0 : Date.parse(lastScale));

/** The columns. `compare` sorts ascending. With `isDescending`, the first click on the title sorts descending. */
const COLUMNS = [
  { key: "state", title: "State", compare: (a, b) => severity[a.state] - severity[b.state] },
  { key: "name", title: "Autoscaler", compare: byText("name") },
  { key: "namespace", title: "Namespace", compare: byText("namespace") },
  { key: "target", title: "Target", compare: byText("target") },
  { key: "replicas", title: "Replicas", compare: byNumber((row) => row.current ?? -1), isDescending: true },
  { key: "load", title: "Load", compare: byNumber((row) => row.load ?? -1), isDescending: true },
  { key: "sentence", title: "Why", compare: byText("sentence") },
  { key: "scaled", title: "Scaled", compare: byNumber(scaledAt), isDescending: true },
];

/** Milliseconds by which the cluster's clock, which may be simulated, is ahead of the browser's. */
let clockAhead = 0;

/** The time by the clock of the cluster. */
export const clusterNow = () => Date.now() + clockAhead;

/**
 * Starts the list. It is empty until the first `update`. After each rendering, calls `onRender` with
 * whether the filter hides autoscalers.
 */
export function startList(onRender) {
  const entries = new Map();
  const blocks = createBlocks(byId("autoscalers"), lineOf);
  const settings = { query: "", namespace: "", states: new Set(), sort: "state", reverse: false };
  let isReading = true;
  let outage = null;
  let isPending = false;

  buildColumns();
  buildStates();
  readAddress();

  byId("query").addEventListener("input", (event) => change({ query: event.target.value }));
  byId("namespace").addEventListener("change", (event) => change({ namespace: event.target.value }));
  byId("sort").addEventListener("change", (event) => change({ sort: event.target.value }));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  setInterval(updateAges, 10_000);

  function buildColumns() {
    const headers = COLUMNS.map(({ key, title }) => {
      const button = element("button", { type: "button", textContent: title });
      button.addEventListener("click", () => {
        change({ sort: key, reverse: settings.sort === key && !settings.reverse });
      });
      const header = element("th", { scope: "col", role: "columnheader", className: key }, button);
      header.dataset.key = key;
      return header;
    });
    byId("columns").replaceChildren(...headers);
    byId("sort").replaceChildren(
      ...COLUMNS.map(({ key, title }) => element("option", { value: key, textContent: title })));
  }

  function buildStates() {
    const buttons = Object.entries(STATES).map(([state, name]) => {
      const amount = element("span", { className: "amount" });
      const button = element("button", { type: "button", className: "chip", "aria-pressed": "false" },
        icon(state), `${name} `, amount);
      button.dataset.state = state;
      button.addEventListener("click", () => {
        const states = new Set(settings.states);
        if (!states.delete(state)) {
          states.add(state);
        }
        change({ states });
      });
      return button;
    });
    byId("states").replaceChildren(...buttons);
  }

  /** Reads the settings from the address. This makes a filtered list a link that can be shared. */
  function readAddress() {
    const parameters = new URLSearchParams(location.search);
    settings.query = parameters.get("filter") ?? "";
    settings.namespace = parameters.get("namespace") ?? "";
    const states = (parameters.get("states") ?? "").split(",");
    settings.states = new Set(states.filter((state) => Object.hasOwn(STATES, state)));
    const sort = parameters.get("sort") ?? "state";
    settings.sort = COLUMNS.some(({ key }) => key === sort) ? sort : "state";
    settings.reverse = parameters.get("order") === "reverse";
    showSettings();
  }

  function address() {
    const parameters = new URLSearchParams();
    const set = (name, value) => value !== "" && parameters.set(name, value);
    set("filter", settings.query);
    set("namespace", settings.namespace);
    set("states", [...settings.states].join());
    set("sort", settings.sort === "state" ? "" : settings.sort);
    set("order", settings.reverse ? "reverse" : "");
    const text = parameters.toString();
    return text === "" ? "/" : `/?${text}`;
  }

  function change(changes) {
    Object.assign(settings, changes);
    history.replaceState(null, "", address());
    showSettings();
    render();
  }

  function showSettings() {
    byId("query").value = settings.query;
    updateNamespaces();
    byId("sort").value = settings.sort;
    for (const header of byId("columns").children) {
      const isSorted = header.dataset.key === settings.sort;
      const order = sortOrder().isDescending ? "descending" : "ascending";
      header.setAttribute("aria-sort", isSorted ? order : "none");
    }
    for (const button of byId("states").children) {
      button.setAttribute("aria-pressed", String(settings.states.has(button.dataset.state)));
    }
  }

  function update({ reset, rows, deleted, now, ...changes }) {
    clockAhead = Date.parse(now) - Date.now();
    if (reset) {
      entries.clear();
    }
    for (const id of deleted) {
      entries.delete(id);
    }
    for (const row of rows) {
      const entry = entries.get(row.id) ?? { line: null, cells: null };
      entries.set(row.id, entry);
      setRow(entry, row);
    }
    isReading = changes.isReading;
    outage = changes.outage;
    isPending = changes.inactive === null;
    updateNamespaces();
    render();
  }

  /** Offers the namespaces of the entries, and the selected one. */
  function updateNamespaces() {
    const select = byId("namespace");
    const known = new Set([...select.options].map((option) => option.value));
    const found = [...entries.values()].map(({ row }) => row.namespace);
    const isNew = [settings.namespace, ...found].some((namespace) => !known.has(namespace));
    if (isNew) {
      const all = [...new Set([...known, settings.namespace, ...found])].filter((namespace) => namespace !== "");
      const options = all.sort(collator.compare).map((value) => element("option", { value, textContent: value }));
      select.replaceChildren(select.options[0], ...options);
    }
    select.value = settings.namespace;
  }

  /** Filters, sorts and shows the entries, and counts them by state. */
  function render() {
    const words = settings.query.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const amounts = {};
    const shown = [];
    for (const entry of entries.values()) {
      const { row } = entry;
      const isNamespace = settings.namespace === "" || row.namespace === settings.namespace;
      if (!isNamespace || !words.every((word) => entry.text.includes(word))) {
        continue;
      }
      amounts[row.state] = (amounts[row.state] ?? 0) + 1;
      if (settings.states.size === 0 || settings.states.has(row.state)) {
        shown.push(entry);
      }
    }
    shown.sort(comparison());
    blocks.showEntries(shown);
    showAmounts(amounts);
    const hidden = entries.size - shown.length;
    const total = hidden === 0 ? "" : ` of ${entries.size}`;
    const amount = `${count(shown.length, "autoscaler")}${total}`;
    // The problems above the list say what could not be read.
    const known = outage?.isPartial ? `${amount}; not all lists could be read`
      : outage !== null && entries.size === 0 ? "No autoscaler could be read" : amount;
    const pending = isPending ? "; the controllers have not been read yet" : "";
    const isUnread = isReading && entries.size === 0;
    setText(byId("count"), isUnread ? "Reading the autoscalers" : known + pending);
    onRender(hidden > 0);
  }

  function sortOrder() {
    const { compare, isDescending = false } = COLUMNS.find(({ key }) => key === settings.sort);
    return { compare, isDescending: isDescending !== settings.reverse };
  }

  function comparison() {
    const { compare, isDescending } = sortOrder();
    const sign = isDescending ? -1 : 1;
    return (a, b) => sign * compare(a.row, b.row)
      || collator.compare(a.row.namespace, b.row.namespace)
      || collator.compare(a.row.name, b.row.name);
  }

  function showAmounts(amounts) {
    for (const button of byId("states").children) {
      const amount = amounts[button.dataset.state] ?? 0;
      setText(button.querySelector(".amount"), String(amount));
      button.hidden = amount === 0 && !settings.states.has(button.dataset.state);
    }
  }

  function updateAges() {
    for (const entry of entries.values()) {
      if (entry.line !== null) {
        showAge(entry);
      }
    }
  }

  function restore() {
    readAddress();
    render();
  }

  return { update, address, restore, fillAll: blocks.fillAll };
}

/** Sets the row of an entry. Updates its line, which exists once the entry was near the window. */
function setRow(entry, row) {
  entry.row = row;
  entry.text = `${row.namespace}/${row.name} ${row.target} ${row.sentence} ${row.settings ?? ""}`.toLowerCase();
  if (entry.line !== null) {
    fill(entry);
  }
}

function lineOf(entry) {
  if (entry.line === null) {
    addLine(entry);
    fill(entry);
  }
  return entry.line;
}

function addLine(entry) {
  const { id, namespace, name } = entry.row;
  const cells = Object.fromEntries(COLUMNS.map(({ key }) => {
    const header = key === "name" ? { scope: "row", role: "rowheader" } : { role: "cell" };
    return [key, element(key === "name" ? "th" : "td", { className: key, ...header })];
  }));
  const link = element("a", { href: `/?autoscaler=${encodeURIComponent(id)}` }, ...breakable(name));
  const api = id.startsWith("custom/") ? [" ", element("span", { className: "tag", textContent: "custom API" })] : [];
  cells.name.append(link, ...api);
  cells.namespace.textContent = namespace;
  entry.line = element("tr", { role: "row" }, ...COLUMNS.map(({ key }) => cells[key]));
  entry.cells = cells;
}

function fill(entry) {
  const { cells, row } = entry;
  if (cells.state.firstChild?.dataset.state !== row.state) {
    cells.state.replaceChildren(badge(row.state));
  }
  if (cells.target.textContent !== row.target) {
    cells.target.replaceChildren(...breakable(row.target));
  }
  const settings = row.settings === null ? "" : `Settings: ${row.settings}`;
  cells.sentence.title = settings === "" ? row.sentence : `${row.sentence}\n${settings}`;
  setSettings(cells.name, settings, row.hasInvalidSettings);
  setText(cells.load, row.load === null ? "" : `${number(row.load * 100)}%`);
  const isChanging = row.desired !== null && row.current !== null && row.current !== row.desired;
  const current = row.current ?? "unknown";
  const replicas = isChanging ? `${current} → ${row.desired}` : current;
  const bounds = row.min === null ? "" : `(${row.min} to ${row.max})`;
  if (cells.replicas.textContent !== `${replicas} ${bounds}`) {
    cells.replicas.replaceChildren(`${replicas} `, element("span", { className: "bounds", textContent: bounds }));
  }
  showAge(entry);
}

/** Marks an autoscaler with settings of its own, or with invalid ones. */
function setSettings(cell, settings, isInvalid) {
  let mark = cell.querySelector(".settings");
  if (settings === "" && !isInvalid) {
    mark?.remove();
    return;
  }
  if (mark === null) {
    mark = element("span", { className: "tag settings" });
    cell.append(" ", mark);
  }
  mark.classList.toggle("invalid", isInvalid);
  setText(mark, isInvalid ? "invalid settings" : "settings");
  mark.title = settings;
}

function showAge({ cells, row }) {
  const now = clusterNow();
  setText(cells.scaled, lastScaled(row, now));
  setText(cells.sentence, row.undecidedSince === null ? row.sentence
    : `No decision for ${duration(now - Date.parse(row.undecidedSince))}. Before: ${row.sentence}`);
}

/** The time since the last scaling. The status lacks it if the controller could not store it then. */
export function lastScaled({ lastScale }, now) {
  return lastScale === null ? "not recorded" : ago(lastScale, now);
}

/** A badge with the name and the symbol of a state, which don't depend on color. */
export function badge(state) {
  const shown = element("span", { className: "badge" }, icon(state), STATES[state]);
  shown.dataset.state = state;
  return shown;
}

const ICONS = {
  failing: "✕", notHandled: "⊘", fallback: "↯", atMaximum: "▲", off: "○", paused: "❙❙", dryRun: "◇", new: "?", oldStatus: "⌛",
  metricMissing: "◌", waitingForPods: "…", scaling: "↕", rateLimited: "⇥", stabilizing: "≈", atMinimum: "▽", steady: "✓",
};

function icon(state) {
  return element("span", { className: "icon", "aria-hidden": "true", textContent: ICONS[state] });
}
