// The frame of the page: which part is shown, whether it is live, and what doesn't work.

import { byId, element, setItems, setText } from "./dom.js";
import { openDetail } from "./detail.js";
import { startList } from "./list.js";
import { openStream } from "./stream.js";

const LIVE = { live: "Live", lost: "Connection lost, retrying", paused: "Paused" };

let closeDetail = null;
let listScroll = 0;

const list = startList();

/** Shows the part that the address names. */
function show(moveFocus) {
  const id = new URLSearchParams(location.search).get("autoscaler");
  closeDetail?.();
  closeDetail = null;
  byId("list").hidden = id !== null;
  byId("detail").hidden = id === null;
  if (id === null) {
    document.title = "Autoscalers";
    list.restore();
    scrollTo(0, listScroll);
  } else {
    byId("back").href = list.address();
    closeDetail = openDetail(id, showProblems);
    scrollTo(0, 0);
  }
  if (moveFocus) {
    byId(id === null ? "list-title" : "detail-title").focus({ preventScroll: true });
  }
}

function showProblems(problems) {
  setItems(byId("problems"), problems);
  byId("problems").hidden = problems.length === 0;
}

function showState(state) {
  setText(byId("live"), LIVE[state]);
  byId("live").dataset.state = state;
}

/** Follows links within the page without loading it again. */
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

// Paper has room for everything.
addEventListener("beforeprint", () => {
  list.fillAll();
  for (const details of document.querySelectorAll("details")) {
    details.open = true;
  }
});

openStream("/api/autoscalers", (changes) => {
  list.update(changes);
  // The states are then those of old statuses.
  document.body.classList.toggle("silent", changes.silent);
  showProblems(changes.problems);
}, showState);

fetch("/api/about").then((response) => response.json()).then((about) => {
  setText(byId("cluster"), about.cluster);
  byId("home").title = `hpa ${about.version}`;
});

show(false);
