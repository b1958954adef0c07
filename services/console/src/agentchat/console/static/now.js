// Count the runs that arrive while their table is scrolled out of sight; a button scrolls to them.
const button = document.querySelector(".new-rows button");
const rows = () => [...document.querySelectorAll("#runs tbody tr")];
let seen = new Set(rows().map((row) => row.id));

const isAway = () => document.getElementById("runs").getBoundingClientRect().top < -1;

function count() {
  if (!isAway()) seen = new Set(rows().map((row) => row.id));
  const fresh = rows().filter((row) => !seen.has(row.id)).length;
  button.hidden = !fresh;
  button.textContent = `${fresh} new`;
}

button.addEventListener("click", () => {
  const runs = document.getElementById("runs"); // the button itself is sticky and always in view
  runs.scrollIntoView();
  runs.querySelector("a")?.focus({ preventScroll: true });
});
document.addEventListener("htmx:after:swap", count);
addEventListener("scroll", count, { passive: true });
