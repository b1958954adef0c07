// Actions that must be confirmed: the question that answers a form with data-asks is shown over the page.
const dialog = () => document.getElementById("question");
const SILENT = '<p class="notice" role="alert">The console does not answer. Nothing was changed.</p>';

async function ask(form, submitter) {
  const address = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  const answer = await fetch(address, {
    method: "POST",
    headers: { "hx-request": "true" },
    body: new URLSearchParams(new FormData(form, submitter)),
  }).catch(() => null);
  if (!answer?.ok) {
    const trouble = document.getElementById("trouble");
    trouble.innerHTML = (await answer?.text()) ?? SILENT;
    trouble.scrollIntoView({ block: "center" });
    return;
  }
  dialog().innerHTML = await answer.text();
  if (!dialog().open) dialog().showModal();
  dialog().querySelector("input:not([type=hidden]), select, button")?.focus();
}

export function confirmActions() {
  document.addEventListener("submit", (event) => {
    if (!("asks" in event.target.dataset)) return;
    event.preventDefault();
    ask(event.target, event.submitter);
  });
  dialog()?.addEventListener("click", (event) => {
    if (!event.target.closest("[data-back]")) return;
    event.preventDefault();
    dialog().close();
  });
}
