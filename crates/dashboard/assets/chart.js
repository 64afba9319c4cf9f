// Line charts as SVG: steps, because a value holds until the next one is known, or slopes and areas.

import { svgElement, element, setText } from "./dom.js";
import { duration, timeOfDay } from "./format.js";

const HEIGHT = 170;
const MARGIN = { top: 8, right: 10, bottom: 22, left: 48 };
/** The shortest time that a chart shows. */
const MIN_SPAN = 5 * 60_000;
/** The maximum number of rows of the table below a chart. */
const MAX_ROWS = 60;
/** The possible distances of labels on the time axis, in seconds. */
const TIME_STEPS = [
  15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
];

/**
 * Creates a chart in `container`. Returns a function that draws an object with these members:
 * - `title`: the title for screen readers
 * - `now`: the present, in milliseconds
 * - `end`: the right edge, if it is later than the present
 * - `lines`: `{ name, className, points: [[time, value or null]], isSloped }`; with `isSloped`, the
 *   points are connected by slopes, otherwise by steps; an area has values `[low, high]`
 * - `horizontalLines`: constant values, such as bounds, `{ name, className, value }`
 * - `axisUnit`: the unit in which labels of the value axis are round, 1 by default
 * - `whole`: whether all grid lines have whole values
 * - `format`: a function that formats a value
 */
export function createChart(container) {
  const picture = svgElement("svg", { role: "img" });
  const legend = element("ul", { className: "legend" });
  const readout = element("p", { className: "quiet readout" });
  const body = element("tbody");
  const head = element("thead");
  const summary = element("summary", { textContent: "As a table" });
  const table = element("table", { className: "values" }, head, body);
  const region = element("div", { className: "scroll", tabIndex: 0, role: "region" }, table);
  const details = element("details", {}, summary, region);
  container.replaceChildren(picture, legend, readout, details);
  let drawnChart = null;

  const draw = (chart) => {
    drawnChart = chart;
    const width = Math.max(240, container.clientWidth);
    const scale = scales(chart, width);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    picture.setAttribute("aria-label", describe(chart));
    picture.replaceChildren(...grid(chart, scale, width), ...drawHorizontalLines(chart, scale, width),
      ...drawLines(chart, scale), cursorOf(null));
    legend.replaceChildren(...legendItems(chart));
    table.setAttribute("aria-label", chart.title);
    region.setAttribute("aria-label", chart.title);
    fillTable(chart, head, body);
    setText(readout, "");
  };

  picture.addEventListener("pointermove", (event) => {
    if (drawnChart === null) {
      return;
    }
    const box = picture.getBoundingClientRect();
    const width = picture.viewBox.baseVal.width;
    const { from, end, x } = scales(drawnChart, width);
    const share = ((event.clientX - box.left) / box.width * width - MARGIN.left)
      / (width - MARGIN.left - MARGIN.right);
    const time = Math.min(end, Math.max(from, from + share * (end - from)));
    setText(readout, readoutOf(drawnChart, time));
    picture.lastChild.replaceWith(cursorOf(x(time)));
  });
  picture.addEventListener("pointerleave", () => {
    if (drawnChart !== null) {
      setText(readout, "");
      picture.lastChild.replaceWith(cursorOf(null));
    }
  });
  new ResizeObserver(() => drawnChart !== null && draw(drawnChart)).observe(container);
  return draw;
}

function cursorOf(x) {
  const line = `M${x} ${MARGIN.top}V${HEIGHT - MARGIN.bottom}`;
  return x === null ? svgElement("g") : svgElement("path", { class: "cursor", d: line });
}

function scales({ now, end = now, lines, horizontalLines, whole, axisUnit = 1 }, width) {
  const times = lines.flatMap(({ points }) => points.slice(0, 1).map(([time]) => time));
  const from = Math.min(now - MIN_SPAN, ...times);
  const values = lines.flatMap(({ points }) => points.flatMap(([, value]) => value));
  const known = [...values, ...horizontalLines.map(({ value }) => value)].filter((value) => value !== null);
  const top = niceCeiling(Math.max(1e-9, ...known) * 1.05 / axisUnit, whole) * axisUnit;
  const innerWidth = width - MARGIN.left - MARGIN.right;
  const innerHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  return {
    from,
    end,
    top,
    // A sample can be newer than the right edge, if the clock of its source is ahead.
    x: (time) => round(MARGIN.left + (Math.min(time, end) - from) / (end - from) * innerWidth),
    y: (value) => round(MARGIN.top + (1 - value / top) * innerHeight),
  };
}

const round = (value) => Math.round(value * 10) / 10;

/** The round end of a value axis, at or above `value`. With `whole`, all grid lines are whole. */
function niceCeiling(value, whole) {
  if (whole && value <= 4) {
    return Math.ceil(value);
  }
  const power = 10 ** Math.floor(Math.log10(value));
  const candidates = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12].map((factor) => factor * power);
  return candidates.find((candidate) => candidate >= value && (!whole || candidate % 4 === 0));
}

function grid({ now, format, whole }, { from, end, top, x, y }, width) {
  const parts = [];
  const steps = whole && top < 4 ? top : 4;
  for (let step = 0; step <= steps; step++) {
    const value = top * step / steps;
    const line = `M${MARGIN.left} ${y(value)}H${width - MARGIN.right}`;
    parts.push(svgElement("path", { class: "grid", d: line }));
    parts.push(label(format(value), MARGIN.left - 6, y(value) + 4, "end"));
  }
  const step = timeStep(end - from, width < 420 ? 2 : 5);
  const times = (sign, limit) => Array.from({ length: Math.floor(limit / step) },
    (_, index) => [(index + 1) * step, now + sign * (index + 1) * step]);
  for (const [distance, time] of times(-1, now - from)) {
    const anchor = x(time) < MARGIN.left + 20 ? "start" : "middle";
    parts.push(label(`−${duration(distance)}`, x(time), HEIGHT - 6, anchor));
  }
  for (const [distance, time] of times(1, end - now)) {
    const anchor = x(time) > width - MARGIN.right - 20 ? "end" : "middle";
    parts.push(label(`+${duration(distance)}`, x(time), HEIGHT - 6, anchor));
  }
  if (end > now) {
    parts.push(svgElement("path", { class: "now", d: `M${x(now)} ${MARGIN.top}V${HEIGHT - MARGIN.bottom}` }));
  }
  parts.push(label("now", x(now), HEIGHT - 6, x(now) > width - MARGIN.right - 16 ? "end" : "middle"));
  return parts;
}

/** The smallest round distance, in milliseconds, that fits into `span` at most `amount` times. */
function timeStep(span, amount) {
  const seconds = TIME_STEPS.find((step) => span / 1000 / step <= amount) ?? TIME_STEPS.at(-1);
  return seconds * 1000;
}

function label(text, x, y, anchor) {
  return svgElement("text", { x, y, "text-anchor": anchor }, text);
}

function drawHorizontalLines({ horizontalLines }, { y }, width) {
  return horizontalLines.map(({ className, value }) =>
    svgElement("path", { class: `line ${className}`, d: `M${MARGIN.left} ${y(value)}H${width - MARGIN.right}` }));
}

function drawLines({ lines, now }, scale) {
  return lines.map(({ className, points, isSloped }) => {
    if (points.some(([, value]) => Array.isArray(value))) {
      return svgElement("path", { class: `area ${className}`, d: areaOf(points, scale) });
    }
    const path = isSloped ? slopesOf(points, scale) : stepsOf(points, now, scale);
    return svgElement("path", { class: `line ${className}`, d: path });
  });
}

function stepsOf(points, now, { x, y }) {
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
  return path + (isOpen ? `H${x(now)}` : "");
}

function slopesOf(points, { x, y }) {
  const runs = runsOf(points);
  return runs.map((run) => `M${run.map(([time, value]) => `${x(time)} ${y(value)}`).join("L")}`).join("");
}

function areaOf(points, { x, y }) {
  return runsOf(points).map((run) => {
    const edge = (index) => run.map(([time, values]) => `${x(time)} ${y(values[index])}`);
    return `M${[...edge(1), ...edge(0).reverse()].join("L")}Z`;
  }).join("");
}

/** Splits points into runs in which each point has a value. */
function runsOf(points) {
  const runs = [[]];
  for (const point of points) {
    if (point[1] !== null) {
      runs.at(-1).push(point);
    } else if (runs.at(-1).length > 0) {
      runs.push([]);
    }
  }
  return runs.filter((run) => run.length > 0);
}

/** A value, or those of an area, as text. */
function textOf(value, format) {
  if (value === null) {
    return "none";
  }
  return Array.isArray(value) ? `${format(value[0])} to ${format(value[1])}` : format(value);
}

function legendItems({ lines, horizontalLines, format }) {
  const items = [
    ...lines.map(({ name, className, points }) => [name, className, points.at(-1)?.[1] ?? null]),
    ...horizontalLines.map(({ name, className, value }) => [name, className, value]),
  ];
  return items.map(([name, className, value]) => {
    const mark = Array.isArray(value)
      ? svgElement("path", { class: `area ${className}`, d: "M1 0H23V8H1Z" })
      : svgElement("path", { class: `line ${className}`, d: "M1 4H23" });
    const sample = svgElement("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" }, mark);
    return element("li", {}, sample, `${name}: ${textOf(value, format)}`);
  });
}

/** The value of a line at a time: the last one up to then. */
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

function readoutOf({ lines, now, format }, time) {
  const values = lines.map(({ name, points, isSloped }) => {
    // A slope has no value after its last point. A step keeps the last value.
    const isOver = isSloped && time > (points.at(-1)?.[0] ?? 0);
    return `${name} ${textOf(isOver ? null : valueAt(points, time), format)}`;
  });
  const distance = Math.round((time - now) / 1000) * 1000;
  const when = distance === 0 ? "Now"
    : distance < 0 ? `${duration(-distance)} ago` : `In ${duration(distance)}`;
  return `${when} (${timeOfDay(time)}): ${values.join(", ")}`;
}

function describe({ title, lines, horizontalLines, format }) {
  const parts = lines.map(({ name, points }) => {
    const known = points.map(([, value]) => value).filter((value) => value !== null);
    if (known.length === 0) {
      return `${name} has no value`;
    }
    const values = known.flat();
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const range = `from ${format(low)} to ${format(high)}`;
    return Array.isArray(known[0])
      ? `${name} is ${textOf(known.at(-1), format)} at the end, ${range} over the time`
      : `${name} is ${format(known.at(-1))}, ${range}`;
  });
  const marks = horizontalLines.map(({ name, value }) => `${name} is ${format(value)}`);
  return `${title}: ${[...parts, ...marks].join("; ")}`;
}

function fillTable({ lines, format }, head, body) {
  const names = ["Time", ...lines.map(({ name }) => name)];
  head.replaceChildren(element("tr", {}, ...names.map((name) =>
    element("th", { scope: "col", textContent: name }))));
  const times = [...new Set(lines.flatMap(({ points }) => points.map(([time]) => time)))];
  times.sort((a, b) => b - a);
  const rows = times.slice(0, MAX_ROWS).map((time) => {
    const values = lines.map(({ points, isSloped }) =>
      (isSloped ? points.find(([at]) => at === time)?.[1] ?? null : valueAt(points, time)));
    return element("tr", {}, element("th", { scope: "row", textContent: timeOfDay(time) }),
      ...values.map((value) => element("td", { textContent: textOf(value, format) })));
  });
  body.replaceChildren(...rows, ...countRow(times.length - rows.length, "older", names.length));
}

/** The row that counts the rows that a table leaves out. `kind` is "older" or "more". Empty if there are none. */
export function countRow(amount, kind, columns) {
  const text = `and ${amount} ${kind}`;
  return amount > 0
    ? [element("tr", {}, element("td", { colSpan: columns, className: "quiet", textContent: text }))]
    : [];
}
