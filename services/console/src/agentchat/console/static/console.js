// Loaded by every page: local times, copy buttons, drop-downs that submit, kept forms, keyboard shortcuts.
import { showTimes } from "./times.js";
import { keepForms } from "./kept_forms.js";
import { listen } from "./keys.js";
import { live } from "./live.js";
import { confirmActions } from "./confirm.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1000);
});
document.documentElement.classList.add("scripted");
document.addEventListener("change", (event) => {
  if (event.target.matches(".choose [data-sends]")) event.target.form.requestSubmit();
});
showTimes();
keepForms();
listen();
live();
confirmActions();
