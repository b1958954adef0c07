// Forms that survive a reload, selects that send, a message box that sends by Enter, a thread that stays at its end.

/** What is written in a form is kept in this tab, for this address, until it is sent. */
function keep(form) {
  const key = `kept ${location.pathname}${location.search}`;
  const fields = () => [...form.elements].filter((field) => field.name && field.type !== "hidden" && field.type !== "submit");
  const kept = document.querySelector("main [role=alert]") ? null : JSON.parse(sessionStorage.getItem(key) ?? "null");
  let changed = null;
  for (const field of kept ? fields() : []) {
    if (!(field.name in kept)) continue;
    if (field.type === "checkbox") field.checked = kept[field.name];
    else field.value = kept[field.name];
    changed = field;
  }
  changed?.dispatchEvent(new Event("change", { bubbles: true }));
  document.addEventListener("input", (event) => {
    if (event.target.form !== form) return;
    const values = fields().map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]);
    sessionStorage.setItem(key, JSON.stringify(Object.fromEntries(values)));
  });
  form.addEventListener("submit", (event) => {
    if (event.submitter?.value !== "estimate") sessionStorage.removeItem(key);
  });
}

/** The end of the page stays in sight while a reply comes, unless the reader has scrolled up. */
function followEnd(element) {
  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  let follows = true;
  addEventListener("scroll", () => { follows = isAtEnd(); }, { passive: true });
  new MutationObserver(() => {
    if (follows) scrollTo({ top: document.documentElement.scrollHeight });
  }).observe(element, { childList: true, subtree: true, characterData: true });
}

document.documentElement.classList.add("scripted");
document.querySelectorAll("form[data-keep]").forEach(keep);
document.querySelectorAll("[data-follow]").forEach(followEnd);
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-sends]")) event.target.form.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches("[data-enter-sends]")) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});
