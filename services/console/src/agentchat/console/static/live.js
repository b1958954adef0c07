// Live parts of a page: [data-stream] receives server-sent events, [data-live] shows the state of the stream.
// Space pauses. A silent stream is shown as frozen and opened again. Ages of runs count up between events.
import { on } from "./keys.js";
import { clock } from "./times.js";

const SILENT_MS = 12000;
const ages = new WeakMap();
let connection = null;
let heard = performance.now();
let lostAt = null;
let paused = false;
let ended = false;

function say(kind, icon, text) {
  const badge = document.querySelector("[data-live]");
  const html = `${icon} ${text}`;
  if (!badge || badge.dataset.text === html) return;
  badge.dataset.text = html;
  badge.className = `live state ${kind}`;
  badge.replaceChildren(Object.assign(document.createElement("span"), { textContent: icon, ariaHidden: "true" }), ` ${text}`);
}

function show() {
  if (ended) say("done", "✓", "ended");
  else if (paused) say("waiting", "‖", "paused (press space to resume)");
  else if (lostAt) say("failed", "✕", `frozen since ${clock(lostAt)}`);
  else if (connection) say("running now", "●", "live");
  else say("waiting", "‖", "connecting");
}

function listen(stream) {
  heard = performance.now();
  const hear = (event) => {
    connection = event.detail.connection;
    heard = performance.now();
    lostAt = null;
    show();
  };
  stream.addEventListener("htmx:sse:after:connection", hear);
  stream.addEventListener("htmx:sse:before:message", (event) => {
    hear(event);
    if (paused && !event.detail.message.event) event.preventDefault();
  });
  stream.addEventListener("htmx:sse:close", (event) => {
    ended = event.detail.reason === "message"; // the stream is complete
    if (!ended) lostAt ??= new Date();
    show();
  });
  stream.addEventListener("htmx:sse:error", (event) => {
    if (event.detail.status === 401) location.reload(); // shows the sign-in page
    lostAt ??= new Date();
    show();
  });
  on(" ", () => {
    paused = !paused;
    if (!paused) connection?.reader?.cancel(); // a new connection starts with the complete state
    show();
  });
  setInterval(() => {
    if (document.hidden) heard = performance.now();
    if (!ended && performance.now() - heard > SILENT_MS) {
      lostAt ??= new Date();
      connection?.reader?.cancel();
      heard = performance.now();
    }
    show();
    if (!paused && !lostAt) showAges();
  }, 500);
}

function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} m` : `${Math.floor(minutes / 1440)} d`;
}

function showAges() {
  for (const element of document.querySelectorAll("[data-age]")) {
    let known = ages.get(element);
    if (known?.age !== element.dataset.age) {
      known = { age: element.dataset.age, at: performance.now() };
      ages.set(element, known);
    }
    const text = duration(Number(known.age) + (performance.now() - known.at) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** Show the number of pending approvals in the title of the page. */
function showCount() {
  const count = document.getElementById("approvals-count")?.dataset.count;
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = count ? `(${count}) ${title}` : title;
}

export function live() {
  const stream = document.querySelector("[data-stream]");
  if (stream) listen(stream);
  document.addEventListener("htmx:after:swap", () => { showCount(); if (!paused) showAges(); });
  showCount();
}
