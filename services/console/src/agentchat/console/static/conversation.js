// One conversation: the arrow keys go to the previous and the next run; what is shown is scrolled to.
import { on } from "./keys.js";

on("ArrowLeft", () => document.querySelector("a[rel=prev]")?.click());
on("ArrowRight", () => document.querySelector("a[rel=next]")?.click());

function show() {
  const thread = document.querySelector(".thread"), turn = thread?.querySelector(".turn.chosen");
  if (turn && thread.scrollHeight > thread.clientHeight) thread.scrollTop = turn.offsetTop - thread.offsetTop - 8;
}
show();
document.addEventListener("htmx:after:swap", show);
