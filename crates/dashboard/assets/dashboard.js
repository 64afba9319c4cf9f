// The frame of the page: its two parts, the state of the connection, and the problems.

import { byId, setItems, setText } from "./dom.js";
import { openDetail } from "./detail.js";
import { duration, pointInTime } from "./format.js";
import { clusterNow, startList } from "./list.js";
import { openStream } from "./stream.js";

/** Shown after the problems if the list is filtered. */
const NOT_FILTERED = "The filter doesn't apply to these problems: they concern all autoscalers.";

let closeDetail = null;
/** The problems of the list, and of the autoscaler that is shown. Null if none has been read. */
let problems = { list: [], detail: null };
/** Whether the filter hides autoscalers. */
let isFiltered = false;
/**
 * The states of the streams of the list and of the autoscaler that is shown, if there is one.
 * `lostAt` is the time when a stream stopped being live.
 */
const streams = { list: { state: "connecting", lostAt: null }, detail: null };
/** The summary of the outages of the cluster. Null if the server can read everything. */
let outage = null;
let listScroll = 0;

const list = startList((hidesSome) => {
  isFiltered = hidesSome;
  showProblems({});
});

/** Shows the autoscaler that the address names, or else the list. */
function show(moveFocus) {
  const id = new URLSearchParams(location.search).get("autoscaler");
  closeDetail?.();
  closeDetail = null;
  streams.detail = null;
  byId("list").hidden = id !== null;
  byId("detail").hidden = id === null;
  if (id === null) {
    document.title = "Autoscalers";
    showProblems({ detail: null });
    list.restore();
    scrollTo(0, listScroll);
  } else {
    byId("back").href = list.address();
    showProblems({ detail: null });
    closeDetail = openDetail(id, (detail) => showProblems({ detail }), (state) => setStream("detail", state));
    scrollTo(0, 0);
  }
  showState();
  if (moveFocus) {
    byId(id === null ? "list-title" : "detail-title").focus({ preventScroll: true });
  }
}

function showProblems(changed) {
  problems = { ...problems, ...changed };
  const texts = problems.detail ?? problems.list;
  const hasFilter = isFiltered && !byId("list").hidden && texts.length > 0;
  const shown = hasFilter ? [...texts, NOT_FILTERED] : texts;
  setItems(byId("problems"), shown);
  byId("problems").hidden = shown.length === 0;
}

/** Sets the state of a stream. After it was live, remembers the time of its last values. */
function setStream(name, state) {
  const old = streams[name];
  const lostAt = old?.state === "live" ? clusterNow() : old?.lostAt ?? null;
  streams[name] = { state, lostAt: state === "live" ? null : lostAt };
  showState();
}

/** Shows the state of the connection. If the values are old, also shows their age. */
function showState() {
  const stream = [streams.list, streams.detail].find((one) => one !== null && one.state !== "live") ?? streams.list;
  const isLive = stream.state === "live";
  const state = !isLive || outage === null ? stream.state : outage.isPartial ? "partial" : "unread";
  const now = clusterNow();
  const since = outage === null ? "" : pointInTime(Date.parse(outage.since), now);
  const texts = {
    connecting: "Connecting",
    live: "Live",
    lost: "Connection to hpa dashboard lost, retrying",
    paused: "Paused",
    partial: `Some data can't be read since ${since}`,
    unread: `Can't read the ${outage?.isServerDown ? "cluster" : "autoscalers"} since ${since}`,
  };
  setText(byId("live"), texts[state]);
  byId("live").dataset.state = state;
  const isUnread = state === "unread" && outage.valuesAt !== null;
  const valuesAt = isUnread ? Date.parse(outage.valuesAt) : state === "lost" ? stream.lostAt : null;
  document.body.classList.toggle("stale", valuesAt !== null);
  byId("age").hidden = valuesAt === null;
  if (valuesAt !== null) {
    const advice = isUnread ? "" : " If hpa dashboard was started again, open the address that it printed then.";
    setText(byId("age"), `Values from ${pointInTime(valuesAt, now)}, ${duration(now - valuesAt)} ago.${advice}`);
  }
}
setInterval(showState, 5000);

// Links within the page change the address without loading the page again.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
  if (link === null || !isPlain || link.pathname !== "/" || link.hash !== "") {
    return;
  }
  event.preventDefault();
  if (!byId("list").hidden) {
    listScroll = scrollY;
  }
  history.pushState(null, "", link.href);
  show(true);
});
addEventListener("popstate", () => show(true));

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, select, textarea");
  if (event.key === "/" && !isTyping && !byId("list").hidden) {
    event.preventDefault();
    byId("query").focus();
  }
});

// On paper, everything is visible.
addEventListener("beforeprint", () => {
  list.fillAll();
  for (const details of document.querySelectorAll("details")) {
    details.open = true;
  }
});

openStream("/api/autoscalers", (changes) => {
  list.update(changes);
  // Unless the controller makes decisions, the states may come from old statuses.
  document.body.classList.toggle("inactive", changes.inactive !== false);
  outage = changes.outage;
  showProblems({ list: changes.problems });
}, (state) => setStream("list", state));

fetch("/api/about").then((response) => response.json()).then((about) => {
  const scope = about.namespace === null ? "" : `only namespace ${about.namespace}`;
  setText(byId("cluster"), [about.cluster, scope].filter((text) => text !== "").join(", "));
  byId("home").title = `hpa ${about.version}`;
  // A shared link may still filter by another namespace.
  const isOtherNamespace = !["", about.namespace].includes(byId("namespace").value);
  byId("namespace").closest("label").hidden = about.namespace !== null && !isOtherNamespace;
});

show(false);
