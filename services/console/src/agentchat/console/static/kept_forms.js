// Keep the text of a form in this tab until the form is accepted, so that no reload and no ended session loses it.
// A form with data-kept is sent repeatedly and keeps its text as long as the tab is open.
const WRITTEN = "textarea, select, input:not([type=hidden], [type=password], [type=file])";
const restored = new WeakSet();

const isBox = (field) => field.type === "checkbox" || field.type === "radio";
const keyOf = (form) => `kept ${location.pathname}${location.search} ${form.getAttribute("action")}`;
const nameOf = (field) => (isBox(field) ? `${field.name}=${field.value}` : field.name);
const fieldsOf = (form) => [...form.elements].filter((field) => field.name && field.matches(WRITTEN));
// Forms of actions that cannot be undone are not kept.
const isKept = (form) => form?.getAttribute("method") === "post" && !form.closest(".danger");

/** Keep only changed fields: the others may have new values by now. */
function keep(form) {
  const changed = fieldsOf(form).filter((field) => field.dataset.changed);
  const values = changed.map((field) => [nameOf(field), isBox(field) ? field.checked : field.value]);
  sessionStorage.setItem(keyOf(form), JSON.stringify(Object.fromEntries(values)));
}

function restore(form) {
  restored.add(form);
  const kept = JSON.parse(sessionStorage.getItem(keyOf(form)) ?? "null") ?? {};
  const fields = fieldsOf(form).filter((field) => nameOf(field) in kept);
  for (const field of fields) {
    const value = kept[nameOf(field)];
    if (isBox(field)) field.checked = value;
    else field.value = value;
    field.dataset.changed = "1";
    field.closest("details")?.setAttribute("open", "");
  }
  fields.at(-1)?.dispatchEvent(new Event("change", { bubbles: true }));
}

function restoreAll() {
  if (document.querySelector("main [role=alert]")) return; // a refused form already has its values
  [...document.forms].filter((form) => isKept(form) && !restored.has(form)).forEach(restore);
}

/** Forget the form that was sent before this page, unless this page shows an error. */
function forgetSent() {
  const sent = sessionStorage.getItem("sent");
  if (sent && !document.querySelector("main [role=alert]")) sessionStorage.removeItem(sent);
  sessionStorage.removeItem("sent");
}

export function keepForms() {
  forgetSent();
  document.addEventListener("input", ({ target }) => {
    if (!isKept(target.form)) return;
    target.dataset.changed = "1";
    keep(target.form);
  });
  document.addEventListener("submit", ({ target, submitter }) => {
    if (submitter?.value === "estimate" || "kept" in target.dataset) return;
    if (target.hasAttribute("hx-post")) sessionStorage.removeItem(keyOf(target));
    else sessionStorage.setItem("sent", keyOf(target));
  });
  document.addEventListener("htmx:after:swap", restoreAll);
  restoreAll();
}
