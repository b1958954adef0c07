// What every page has: times in the reader's zone, copy buttons, keys.
import { showTimes } from "./times.js";
import { listen } from "./keys.js";
import { live } from "./live.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1000);
});
showTimes();
listen();
live();
