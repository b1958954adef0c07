// What is written in a form is kept in this tab until the form was taken, so that neither a reload nor the end of a
// session loses it; one that is sent again and again (data-kept) keeps it for as long as the tab is open.
const WRITTEN = "textarea, select, input:not([type=hidden], [type=password], [type=file])";
const restored = new WeakSet();

const isBox = (field) => field.type === "checkbox" || field.type === "radio";
const keyOf = (form) => `kept ${location.pathname}${location.search} ${form.getAttribute("action")}`;
const nameOf = (field) => (isBox(field) ? `${field.name}=${field.value}` : field.name);
const fieldsOf = (form) => [...form.elements].filter((field) => field.name && field.matches(WRITTEN));
// What cannot be undone is written again.
const isKept = (form) => form?.getAttribute("method") === "post" && !form.closest(".danger");

/** Only what was changed: the rest of the form may be another by now. */
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
  if (document.querySelector("main [role=alert]")) return; // a form that was refused has what was sent
  [...document.forms].filter((form) => isKept(form) && !restored.has(form)).forEach(restore);
}

/** A form that was sent before this page was taken, unless this page says what is wrong. */
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
