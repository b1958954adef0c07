// <time datetime>: show how long ago, and the time in the reader's zone; update as time passes.
const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [Infinity, "d", 86400]];
const ABSOLUTE = new Intl.DateTimeFormat(undefined, { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

function ago(seconds) {
  const distance = Math.abs(seconds);
  if (distance < 1) return "now";
  const [, unit, size] = STEPS.find(([below]) => distance < below);
  const text = `${Math.floor(distance / size)} ${unit}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function show(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = `${ago((Date.now() - at) / 1000)} · ${ABSOLUTE.format(at)}`;
    if (element.textContent !== text) element.textContent = text;
    element.title = `${EXACT.format(at)} (${element.dateTime})`;
  }
}

export function showTimes() {
  show(document);
  document.addEventListener("htmx:after:swap", () => show(document));
  setInterval(() => { if (!document.hidden) show(document); }, 5000);
}
