// Line charts as SVG: steps, because a value holds until the next one is known.

import { drawn, element, setText } from "./dom.js";
import { clock, duration } from "./format.js";

const HEIGHT = 170;
const MARGIN = { top: 8, right: 10, bottom: 22, left: 48 };
/** The shortest time that a chart shows. */
const MIN_SPAN = 5 * 60_000;
/** Rows of the table below a chart. */
const MAX_ROWS = 60;
/** Distances of labels on the time axis, in seconds. */
const TIME_STEPS = [
  15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
];

/**
 * A chart in `container`. `draw` takes
 * - `title`: what it shows, for screen readers
 * - `now`: the right edge, in milliseconds
 * - `edge`: its label; "now" by default
 * - `lines`: `{ name, className, points: [[time, value or null]] }`
 * - `levels`: horizontal lines, `{ name, className, value }`
 * - `base`: what the values count in, for round labels
 * - `format`: from a value to a text
 */
export function createChart(container) {
  const picture = drawn("svg", { role: "img" });
  const legend = element("ul", { className: "legend" });
  const readout = element("p", { className: "quiet readout" });
  const body = element("tbody");
  const head = element("thead");
  const summary = element("summary", { textContent: "As a table" });
  const table = element("table", { className: "values" }, head, body);
  const region = element("div", { className: "scroll", tabIndex: 0, role: "region" }, table);
  const details = element("details", {}, summary, region);
  container.replaceChildren(picture, legend, readout, details);
  let last = null;

  const draw = (chart) => {
    last = chart;
    const width = Math.max(240, container.clientWidth);
    const scale = scales(chart, width);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    picture.setAttribute("aria-label", describe(chart));
    picture.replaceChildren(...grid(chart, scale, width), ...drawLevels(chart, scale, width),
      ...drawLines(chart, scale), cursorOf(null));
    legend.replaceChildren(...legendItems(chart));
    table.setAttribute("aria-label", chart.title);
    region.setAttribute("aria-label", chart.title);
    fillTable(chart, head, body);
    setText(readout, "");
  };

  picture.addEventListener("pointermove", (event) => {
    if (last === null) {
      return;
    }
    const box = picture.getBoundingClientRect();
    const width = picture.viewBox.baseVal.width;
    const { from, x } = scales(last, width);
    const share = ((event.clientX - box.left) / box.width * width - MARGIN.left)
      / (width - MARGIN.left - MARGIN.right);
    const time = Math.min(last.now, Math.max(from, from + share * (last.now - from)));
    setText(readout, readoutOf(last, time));
    picture.lastChild.replaceWith(cursorOf(x(time)));
  });
  picture.addEventListener("pointerleave", () => {
    if (last !== null) {
      setText(readout, "");
      picture.lastChild.replaceWith(cursorOf(null));
    }
  });
  new ResizeObserver(() => last !== null && draw(last)).observe(container);
  return draw;
}

function cursorOf(x) {
  const line = `M${x} ${MARGIN.top}V${HEIGHT - MARGIN.bottom}`;
  return x === null ? drawn("g") : drawn("path", { class: "cursor", d: line });
}

function scales({ now, lines, levels, whole, base = 1 }, width) {
  const times = lines.flatMap(({ points }) => points.slice(0, 1).map(([time]) => time));
  const from = Math.min(now - MIN_SPAN, ...times);
  const values = lines.flatMap(({ points }) => points.map(([, value]) => value));
  const known = [...values, ...levels.map(({ value }) => value)].filter((value) => value !== null);
  const top = niceCeiling(Math.max(1e-9, ...known) * 1.05 / base, whole) * base;
  const innerWidth = width - MARGIN.left - MARGIN.right;
  const innerHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  return {
    from,
    top,
    // A sample can be newer than the right edge, if the clock of its source is ahead.
    x: (time) => round(MARGIN.left + (Math.min(time, now) - from) / (now - from) * innerWidth),
    y: (value) => round(MARGIN.top + (1 - value / top) * innerHeight),
  };
}

const round = (value) => Math.round(value * 10) / 10;

/** The next number that four steps divide into round numbers, or into whole ones. */
function niceCeiling(value, whole) {
  if (whole && value <= 4) {
    return Math.ceil(value);
  }
  const power = 10 ** Math.floor(Math.log10(value));
  const candidates = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12].map((factor) => factor * power);
  return candidates.find((candidate) => candidate >= value && (!whole || candidate % 4 === 0));
}

function grid({ now, edge = "now", format, whole }, { from, top, x, y }, width) {
  const parts = [];
  const steps = whole && top < 4 ? top : 4;
  for (let step = 0; step <= steps; step++) {
    const value = top * step / steps;
    const line = `M${MARGIN.left} ${y(value)}H${width - MARGIN.right}`;
    parts.push(drawn("path", { class: "grid", d: line }));
    parts.push(label(format(value), MARGIN.left - 6, y(value) + 4, "end"));
  }
  parts.push(label(edge, x(now), HEIGHT - 6, "end"));
  const step = timeStep(now - from, width < 420 ? 2 : 5);
  for (let age = step; age <= now - from; age += step) {
    const place = x(now - age);
    const anchor = place < MARGIN.left + 20 ? "start" : "middle";
    parts.push(label(`−${duration(age)}`, place, HEIGHT - 6, anchor));
  }
  return parts;
}

/** A round distance, in milliseconds, that a time has at most so many of. */
export function timeStep(span, amount) {
  const seconds = TIME_STEPS.find((step) => span / 1000 / step <= amount) ?? TIME_STEPS.at(-1);
  return seconds * 1000;
}

function label(text, x, y, anchor) {
  return drawn("text", { x, y, "text-anchor": anchor }, text);
}

function drawLevels({ levels }, { y }, width) {
  return levels.map(({ className, value }) =>
    drawn("path", { class: `line ${className}`, d: `M${MARGIN.left} ${y(value)}H${width - MARGIN.right}` }));
}

function drawLines({ lines, now }, { x, y }) {
  return lines.map(({ className, points }) => {
    let path = "";
    let isOpen = false;
    for (const [time, value] of points) {
      if (value === null) {
        path += isOpen ? `H${x(time)}` : "";
      } else {
        path += isOpen ? `H${x(time)}V${y(value)}` : `M${x(time)} ${y(value)}`;
      }
      isOpen = value !== null;
    }
    path += isOpen ? `H${x(now)}` : "";
    return drawn("path", { class: `line ${className}`, d: path });
  });
}

function legendItems({ lines, levels, format }) {
  const items = [
    ...lines.map(({ name, className, points }) => [name, className, points.at(-1)?.[1] ?? null]),
    ...levels.map(({ name, className, value }) => [name, className, value]),
  ];
  return items.map(([name, className, value]) => {
    const sample = drawn("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" },
      drawn("path", { class: `line ${className}`, d: "M1 4H23" }));
    return element("li", {}, sample, value === null ? `${name}: none` : `${name}: ${format(value)}`);
  });
}

/** The value of a line at a time: the last one before it. */
function valueAt(points, time) {
  let found = null;
  for (const [at, value] of points) {
    if (at > time) {
      break;
    }
    found = value;
  }
  return found;
}

function readoutOf({ lines, now, edge, format }, time) {
  const values = lines.map(({ name, points }) => {
    const value = valueAt(points, time);
    return `${name} ${value === null ? "none" : format(value)}`;
  });
  const when = time >= now ? "Now" : `${duration(now - time)} ago`;
  // If the right edge is not now, the time of day says more.
  const at = edge === undefined ? `${when} (${clock(time)})` : clock(time);
  return `${at}: ${values.join(", ")}`;
}

function describe({ title, lines, levels, format }) {
  const parts = lines.map(({ name, points }) => {
    const values = points.map(([, value]) => value).filter((value) => value !== null);
    if (values.length === 0) {
      return `${name} has no value`;
    }
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return `${name} is ${format(values.at(-1))}, from ${format(low)} to ${format(high)}`;
  });
  const marks = levels.map(({ name, value }) => `${name} is ${format(value)}`);
  return `${title}: ${[...parts, ...marks].join("; ")}`;
}

function fillTable({ lines, format }, head, body) {
  const names = ["Time", ...lines.map(({ name }) => name)];
  head.replaceChildren(element("tr", {}, ...names.map((name) =>
    element("th", { scope: "col", textContent: name }))));
  const times = [...new Set(lines.flatMap(({ points }) => points.map(([time]) => time)))];
  times.sort((a, b) => b - a);
  const rows = times.slice(0, MAX_ROWS).map((time) => {
    const values = lines.map(({ points }) => valueAt(points, time));
    return element("tr", {}, element("th", { scope: "row", textContent: clock(time) }),
      ...values.map((value) => element("td", { textContent: value === null ? "none" : format(value) })));
  });
  body.replaceChildren(...rows, ...moreRows(times.length - rows.length, names.length));
}

/** A row that says how many older ones a table leaves out. */
export function moreRows(amount, columns) {
  const text = `and ${amount} older`;
  return amount > 0
    ? [element("tr", {}, element("td", { colSpan: columns, className: "quiet", textContent: text }))]
    : [];
}
