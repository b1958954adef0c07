// Send the message by Enter; keep the end of the thread in view.

/** Keep the end of the page in view while a reply streams, unless the person has scrolled up. */
function followEnd(element) {
  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  let follows = true;
  addEventListener("scroll", () => { follows = isAtEnd(); }, { passive: true });
  new MutationObserver(() => {
    if (follows) scrollTo({ top: document.documentElement.scrollHeight });
  }).observe(element, { childList: true, subtree: true, characterData: true });
}

document.querySelectorAll("[data-follow]").forEach(followEnd);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches("[data-enter-sends]")) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});
