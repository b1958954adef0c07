// Keyboard shortcuts: / searches, j and k move between rows, Enter opens, ? lists them. Modules add more with `on`.
const more = {};

/** Call `act` for `key`, unless the person is typing. */
export function on(key, act) {
  more[key] = act;
}

function rows() {
  return [...document.querySelectorAll("[data-rows] > *, tbody tr")].filter((row) => row.querySelector("a[href]"));
}

function move(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("chosen"));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  all[at]?.classList.remove("chosen");
  next.classList.add("chosen");
  next.querySelector("a[href]").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const act = {
      "/": () => (document.querySelector("main input[type=search]") ?? document.querySelector("input[type=search]"))?.focus(),
      j: () => move(1),
      k: () => move(-1),
      "?": () => document.getElementById("keys").showModal(),
      ...more,
    }[event.key];
    if (!act || (event.key === " " && event.target.closest("button, a, summary"))) return;
    event.preventDefault();
    act();
  });
}
