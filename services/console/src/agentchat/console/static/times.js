// <time datetime>: show the time in the reader's zone, and how long ago if that is less than an hour and the class is not "clock".
const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [Infinity, "d", 86400]];
const format = (options) => new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", ...options });
const TODAY = format({ second: "2-digit" });
const THIS_YEAR = format({ day: "2-digit", month: "short" });
const EARLIER = format({ day: "2-digit", month: "short", year: "numeric" });
const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

/** Show a time of today with its seconds, any other with its day. */
export function clock(at, now = new Date()) {
  const shown = at.toDateString() === now.toDateString() ? TODAY : at.getFullYear() === now.getFullYear() ? THIS_YEAR : EARLIER;
  return shown.format(at).replace(",", "");
}

function describe(at) {
  const now = new Date(), seconds = (now - at) / 1000, distance = Math.abs(seconds);
  if (seconds >= 3600) return clock(at, now);
  const [, unit, size] = STEPS.find(([below]) => distance < below);
  const text = `${seconds < 0 ? Math.round(distance / size) : Math.floor(distance / size)} ${unit}`;
  return `${distance < 1 ? "now" : seconds < 0 ? `in ${text}` : `${text} ago`} · ${clock(at, now)}`;
}

function show(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = element.classList.contains("clock") ? clock(at) : describe(at);
    if (element.textContent !== text) element.textContent = text;
    element.title = `${EXACT.format(at)} (${element.dateTime})`;
  }
}

export function showTimes() {
  const zone = document.querySelector("[data-zone]");
  if (zone) zone.textContent = `Times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  show(document);
  document.addEventListener("htmx:after:swap", () => show(document));
  setInterval(() => { if (!document.hidden) show(document); }, 5000);
}
