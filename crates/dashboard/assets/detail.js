// The page of one autoscaler: its decision with the explanation, charts, conditions and events.

import { countRow, createChart } from "./chart.js";
import { breakable, byId, element, setItems, setText } from "./dom.js";
import { ago, axisUnit, count, duration, load as loadText, number, quantity, timeOfDay } from "./format.js";
import { badge, lastScaled } from "./list.js";
import { openStream } from "./stream.js";

/** The classes of pods in the order of the summary, which the table reverses. */
const CLASSES = ["ready", "unready", "missing", "ignored"];

/** The table of pods has at most this many. */
const MAX_PODS = 500;

/** A line may break within the names of pods that are longer than this. */
const MAX_UNBROKEN = 20;

/** A line may break within the types and reasons of events that are longer than this. */
const MAX_UNBROKEN_REASON = 40;

/** The class of a cell in which no line breaks, if its text has at most `limit` characters. */
const wholeIfShort = (text, limit) => text.length > limit ? "" : "whole";

const NOT_COMPUTED = "Not known: the decision is not computed here.";

const UNKNOWN_FORM = "The address must name the autoscaler as core/NAMESPACE/NAME, custom/NAMESPACE/NAME, "
  + "or NAMESPACE/NAME for the core API.";

/** Milliseconds for which a recommendation is drawn if no other one follows. */
const MAX_GAP = 90_000;

/** Parses the autoscaler of an address, by default of the core API. Null if it has another form. */
function parse(address) {
  const parts = /^(?:(core|custom)\/)?([^/]+)\/([^/]+)$/.exec(address);
  if (parts === null) {
    return null;
  }
  const [, api = "core", namespace, name] = parts;
  return { id: `${api}/${namespace}/${name}`, title: `${namespace}/${name}` };
}

/** Shows the autoscaler and its changes. Returns a function that closes the stream. */
export function openDetail(address, showProblems, onState) {
  const autoscaler = parse(address);
  const title = autoscaler?.title ?? address;
  setText(byId("detail-title"), title);
  document.title = `${title} - Autoscalers`;
  clear();
  if (autoscaler === null) {
    byId("detail").classList.add("absent");
    setText(byId("detail-sentence"), UNKNOWN_FORM);
    return () => {};
  }
  const charts = { replicas: createChart(byId("replicas-chart")), metrics: [] };
  return openStream(`/api/autoscaler?id=${encodeURIComponent(autoscaler.id)}`, (view) => {
    showProblems(view.problems);
    show(view, charts);
  }, onState);
}

/** The sentence about an autoscaler that is not in the list, or may only be missing there. */
function absenceText({ id, isComplete }) {
  const [, namespace, name] = id.split("/");
  return isComplete
    ? `There is no autoscaler ${name} in the namespace ${namespace}. It may have been deleted.`
    : `The autoscaler ${name} in the namespace ${namespace} is not among those that could be read.`;
}

function clear() {
  byId("detail").classList.remove("absent");
  byId("decisions-section").hidden = true;
  const lists = ["facts", "advice", "changes", "metrics", "limits", "conditions", "decisions", "events", "missing"];
  for (const list of [...lists, "detail-state"]) {
    byId(list).replaceChildren();
  }
  setText(byId("controller"), "");
  setText(byId("detail-sentence"), "Reading the autoscaler");
  byId("advice-section").hidden = true;
}

function show(view, charts) {
  const { row, report, reportLines } = view;
  if (row === undefined) {
    clear();
    byId("detail").classList.toggle("absent", !view.isReading);
    setText(byId("detail-sentence"), view.isReading ? "Reading the autoscaler" : absenceText(view));
    return;
  }
  byId("detail").classList.remove("absent");
  // The state beside a doubtful scaling is that of the last status.
  const isDoubtful = report !== undefined && report.doubt !== null && report.scaleTo !== null
    && row.state !== "notHandled";
  const origin = isDoubtful && !report.dryRun ? ["Last reported: "] : [];
  byId("detail-state").replaceChildren(...origin, badge(row.state), ...inactivityBadge(view));
  showSentence(view);
  showFacts(view);
  setItems(byId("advice"), report?.advice ?? []);
  byId("advice-section").hidden = (report?.advice ?? []).length === 0;
  setItems(byId("changes"), reportLines.changes.map(capitalized), noChangesText(report));
  showReplicas(view, charts.replicas);
  showMetrics(view, charts.metrics);
  showLimits(reportLines.limits, report);
  showConditions(view);
  showDecisions(view);
  showEvents(view);
  setItems(byId("missing"), missingTexts(view));
}

/** The text of the section about changes if no change is known that alters the decision. */
function noChangesText(report) {
  if (report === undefined) {
    return NOT_COMPUTED;
  }
  return report.advice.length > 0
    ? "See what to do. Beyond that, no change of a single value was found that alters the decision."
    : "No change of a single value was found that alters the decision.";
}

/** A note if the controller made its last decision long ago. */
function inactivityBadge({ lastDecision, now }) {
  if (lastDecision === undefined) {
    return [];
  }
  const text = `No decision by the controller for ${duration(Date.parse(now) - Date.parse(lastDecision))}`;
  const note = element("span", { className: "badge", textContent: text });
  note.dataset.state = "inactive";
  return [" ", note];
}

function showSentence({ row, report }) {
  setText(byId("detail-sentence"), capitalized(report?.sentence ?? row.sentence));
}

const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function showFacts(view) {
  const { row, report, now } = view;
  // A doubtful decision may differ from that of the controller.
  const isDoubtful = report === undefined || report.doubt !== null;
  const desired = isDoubtful ? row.desired : report.desiredReplicas ?? row.desired;
  const facts = [
    ["Target", row.target],
    ["Replicas", report?.currentReplicas ?? row.current ?? "unknown"],
    ["Desired", desired === row.desired ? desired ?? "none" : `${desired} (status: ${row.desired ?? "none"})`],
    ["Recommended by metrics", report === undefined ? "not known" : report.proposedReplicas ?? "none"],
    ["Bounds", row.min === null ? "unknown" : `${row.min} to ${row.max}`],
    ["Own settings", row.settings ?? "none"],
    ["Last scaled", lastScaled(row, Date.parse(now))],
  ];
  const current = [...byId("facts").querySelectorAll("dd")];
  if (current.length === facts.length) {
    facts.forEach(([, value], index) => {
      if (current[index].textContent !== String(value)) {
        current[index].replaceChildren(...breakable(String(value)));
      }
    });
    return;
  }
  byId("facts").replaceChildren(...facts.map(([name, value]) => element("div", {},
    element("dt", { textContent: name }), element("dd", {}, ...breakable(String(value))))));
}

function showReplicas({ row, series, now }, draw) {
  const line = (name, className, index) => ({
    name, className, points: series.samples.map((sample) => [sample[0], sample[index]]),
  });
  const recommended = line("recommended", "recommended", 3);
  const hasRecommended = recommended.points.some(([, value]) => value !== null);
  recommended.points = fillGaps(recommended.points);
  draw({
    title: "Replicas over time",
    now: Date.parse(now),
    lines: [
      ...(hasRecommended ? [recommended] : []),
      line("desired", "desired", 2),
      line("current", "current", 1),
    ],
    horizontalLines: row.min === null ? [] : [
      { name: "minimum", className: "bound", value: row.min },
      { name: "maximum", className: "bound", value: row.max },
    ],
    whole: true,
    format: number,
  });
}

/** Fills gaps with the last value: samples from a status have no recommendation. */
function fillGaps(points) {
  let [since, last] = [0, null];
  return points.map(([time, value]) => {
    if (value !== null) {
      [since, last] = [time, value];
    }
    return [time, time - since <= MAX_GAP ? last : null];
  });
}

function showMetrics({ report, reportLines, series, forecasts = [], now }, charts) {
  const parent = byId("metrics");
  const { metrics } = series;
  // `clear` removes the panels while there is no autoscaler.
  if (charts.length !== metrics.length || parent.childElementCount === 0) {
    charts.length = 0;
    parent.replaceChildren(...metrics.map(() => newMetric(charts)));
    if (metrics.length === 0) {
      parent.replaceChildren(element("p", { className: "quiet", textContent: "The autoscaler has no metrics." }));
    }
  }
  metrics.forEach((metric, index) => {
    const { title, text, draw, forecast, pods } = charts[index];
    const reported = report?.metrics[index];
    const isWinner = metrics.length > 1 && report?.winner === index;
    setText(title, isWinner ? `${metric.name} (largest proposal)` : metric.name);
    const isTargetUnread = report !== undefined && report.currentReplicas === null;
    const notRead = isTargetUnread ? "the target could not be read" : "the decision needs no metrics";
    const unread = report === undefined ? NOT_COMPUTED : `Not read: ${notRead}.`;
    setText(text, capitalized(reportLines.metrics[index] ?? unread));
    const target = { name: "target", className: "target", value: metric.targetMilli };
    draw({
      title: `${metric.name} over time`,
      now: Date.parse(now),
      lines: [{
        name: "value",
        className: "value",
        points: series.samples.map((sample) => [sample[0], sample[4][index] ?? null]),
      }],
      horizontalLines: metric.targetMilli === null ? [] : [target],
      axisUnit: axisUnit(metric.unit),
      format: (value) => quantity(value, metric.unit),
    });
    showForecast(forecast, forecasts.find((one) => one.index === index), now);
    showPods(pods, reported, metric.sampleUnit);
  });
}

/** Shows the load of all pods and its forecast: in detail around now, and over the past day. */
function showForecast({ card, text, draw, day, drawDay }, forecast, now) {
  card.hidden = forecast === undefined;
  if (card.hidden) {
    return;
  }
  const { metric, points, recent, unit } = forecast;
  setText(text, describeForecast(forecast));
  day.hidden = points.length === 0;
  if (points.length === 0) {
    return;
  }
  const isDetailed = recent.length > 0;
  const load = unit === null ? `Load of ${metric}` : `Load of ${metric} in ${unit}`;
  const chart = { now: Date.parse(now), horizontalLines: [],
    axisUnit: axisUnit(unit) / 1000, format: (value) => loadText(value, unit) };
  draw({
    ...chart,
    title: `${load} and its forecast`,
    end: Date.parse((isDetailed ? recent : points).at(-1).at),
    lines: forecastLines(forecast, isDetailed ? recent : points, "load, then its last reading"),
  });
  drawDay({
    ...chart,
    title: `${load} and its forecast over the past day`,
    end: Date.parse(points.at(-1).at),
    lines: forecastLines(forecast, points, "load"),
  });
}

/** The lines of a chart with a forecast. The first one is the band, which the others cover. */
function forecastLines({ quantile, read }, points, loadName) {
  const line = (value) => points.map((point) => [Date.parse(point.at), value(point)]);
  const load = line((point) => point.load ?? null);
  while (load.length > 0 && load.at(-1)[1] === null) {
    load.pop();
  }
  if (read !== null) {
    load.push([Date.parse(read.at), read.load]);
  }
  return [
    { name: "8 of 10 cases", className: "band", points: line(({ low, high }) => [low, high]), isSloped: true },
    { name: `forecast (${number(quantile * 100)}% of cases stay below)`, className: "forecast",
      points: line((point) => point.forecast), isSloped: true },
    { name: loadName, className: "value", points: load, isSloped: true },
  ];
}

function describeForecast({ reason, text, yesterday, horizonSeconds, unit, metric }) {
  const parts = [reason === null ? "Not checked yet." : `${reason}: ${text}.`];
  const unitText = unit === null ? `in the unit of ${metric}` : `in ${unit}`;
  parts.push(`The load is that of all pods, ${unitText}: means of five minutes, and last the newest reading. `
    + `A forecast is shown at the time that it is for; it was made ${duration(horizonSeconds * 1000)} before.`);
  if (yesterday !== null) {
    const { covered, error } = yesterday;
    parts.push(`In the past day, the load stayed below the forecast in ${number(covered * 100)}% of the time, `
      + `and the median was off by ${number(error * 100)}% of the load on average.`);
  }
  return parts.join(" ");
}

function newMetric(charts) {
  const title = element("h3");
  const text = element("p");
  const picture = element("div");
  const summary = element("summary");
  const body = element("tbody");
  const header = ["Pod", "Counts", "Why", "Sample", "Request"].map((name) =>
    element("th", { scope: "col", textContent: name }));
  const table = element("table", { className: "values" },
    element("thead", {}, element("tr", {}, ...header)), body);
  const region = element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Pods" }, table);
  const details = element("details", { hidden: true }, summary, region);
  const forecastText = element("p");
  const forecastPicture = element("div");
  const dayPicture = element("div");
  const day = element("details", {}, element("summary", { textContent: "The past day" }), dayPicture);
  const forecastCard = element("section", { hidden: true },
    element("h4", { textContent: "Forecast" }), forecastText, forecastPicture, day);
  const card = element("section", { className: "card" }, title, text, picture, forecastCard, details);
  charts.push({
    title,
    text,
    draw: createChart(picture),
    forecast: { card: forecastCard, text: forecastText, draw: createChart(forecastPicture),
      day, drawDay: createChart(dayPicture) },
    pods: { details, summary, body, region },
  });
  return card;
}

function showPods({ details, summary, body, region }, reported, sampleUnit) {
  const pods = reported?.podList ?? [];
  details.hidden = pods.length === 0;
  if (pods.length === 0) {
    return;
  }
  region.setAttribute("aria-label", `Pods that count for ${reported.name}`);
  const groups = CLASSES.map((key) => pods.filter((pod) => pod.class === key));
  const text = groups.filter(([first]) => first !== undefined).map((group) => `${group.length} ${group[0].label}`);
  setText(summary, `${count(pods.length, "pod")}: ${text.join(", ")}`);
  const formatted = (milli) => milli === null ? "none" : quantity(milli, sampleUnit);
  const rank = Object.fromEntries(CLASSES.map((key, index) => [key, -index]));
  const sorted = [...pods].sort((a, b) => rank[a.class] - rank[b.class] || a.name.localeCompare(b.name));
  body.replaceChildren(...sorted.slice(0, MAX_PODS).map((pod) => element("tr", {},
    element("th", { scope: "row", textContent: pod.name, className: wholeIfShort(pod.name, MAX_UNBROKEN) }),
    element("td", { textContent: pod.label }),
    element("td", { textContent: pod.why }),
    element("td", { textContent: formatted(pod.usageMilli) }),
    element("td", { textContent: formatted(pod.requestMilli) }))),
  ...countRow(sorted.length - MAX_PODS, "more", 5));
}

function showLimits(lines, report) {
  const items = [];
  for (const line of lines) {
    const isNested = line.startsWith("  ");
    const item = element("li", { textContent: capitalized(line.trim()) });
    if (isNested && items.length > 0) {
      const parent = items.at(-1);
      const list = parent.querySelector("ul") ?? parent.appendChild(element("ul"));
      list.append(item);
    } else {
      items.push(item);
    }
  }
  const none = report === undefined ? NOT_COMPUTED : "There was no proposal to limit.";
  const empty = element("li", { textContent: none });
  byId("limits").replaceChildren(...(items.length > 0 ? items : [empty]));
}

function showConditions({ conditions, controller, now }) {
  const who = controller.name === null || controller.name === undefined
    ? "No controller has stored a status."
    : `${controller.name} stored the status${controller.at ? ` ${ago(controller.at, Date.parse(now))}` : ""}.`;
  setText(byId("controller"), who);
  const texts = conditions.map(({ type, status, reason, message }) =>
    `${type}=${status}, ${reason}: ${message}`);
  setItems(byId("conditions"), texts, "None.");
}

function showEvents({ events, olderEventCount, areEventsKnown, now }) {
  if (events.length === 0) {
    const text = areEventsKnown
      ? "No event is stored. The API server keeps events for an hour by default."
      : "Not known: the events have not been read.";
    byId("events").replaceChildren(element("p", { className: "quiet", textContent: text }));
    return;
  }
  const rows = events.map(({ at, type, reason, message, count: times }) => element("tr", {},
    element("td", { textContent: at === null ? "" : ago(at, Date.parse(now)), title: at ?? "" }),
    element("td", {
      textContent: type,
      className: `${wholeIfShort(type, MAX_UNBROKEN_REASON)} ${type === "Warning" ? "warning" : ""}`,
    }),
    element("td", { textContent: reason, className: wholeIfShort(reason, MAX_UNBROKEN_REASON) }),
    element("td", { textContent: times > 1 ? `${message} (${times} times)` : message })));
  showTable(byId("events"), "Events", ["When", "Type", "Reason", "Message"], rows, olderEventCount);
}

function showDecisions({ decisions, olderDecisionCount, now }) {
  byId("decisions-section").hidden = decisions.length === 0;
  const rows = decisions.map(({ from, until, current, scaledTo, sentence }) => {
    const what = current === null ? "can't decide"
      : scaledTo === null ? `stays at ${current}` : `scales from ${current} to ${scaledTo}`;
    const when = ago(until, Date.parse(now));
    const lasted = Date.parse(until) - Date.parse(from);
    return element("tr", {},
      element("td", { textContent: lasted > 0 ? `${when}, for ${duration(lasted)}` : when, title: from }),
      element("td", { textContent: what, className: "whole" }),
      element("td", { textContent: sentence }));
  });
  showTable(byId("decisions"), "Decisions", ["When", "Decision", "Why"], rows, olderDecisionCount);
}

/** Shows a table. `olderCount` is the number of older rows that it leaves out. */
function showTable(parent, title, headers, rows, olderCount) {
  const cells = headers.map((name) => element("th", { scope: "col", textContent: name }));
  const body = element("tbody", {}, ...rows, ...countRow(olderCount, "older", headers.length));
  const table = element("table", { className: "values stacked" },
    element("thead", {}, element("tr", {}, ...cells)), body);
  const old = parent.querySelector(".scroll");
  if (old !== null) {
    old.replaceChildren(table);
    return;
  }
  parent.replaceChildren(
    element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": title }, table));
}

function missingTexts({ missing, report, series, now }) {
  const texts = [...missing];
  const first = series.samples[0]?.[0];
  if (first !== undefined) {
    const since = Date.parse(now) - first;
    const why = report?.historyKnown
      ? "the controller remembers no more" : "the dashboard keeps values while it runs";
    texts.push(`Charts begin at ${timeOfDay(first)}, ${duration(since)} ago: ${why}.`);
  }
  return texts;
}
