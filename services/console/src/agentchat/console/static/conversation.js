// The page of a conversation: arrow keys open the previous and the next run; the shown run is scrolled into view.
import { on } from "./keys.js";

on("ArrowLeft", () => document.querySelector("a[rel=prev]")?.click());
on("ArrowRight", () => document.querySelector("a[rel=next]")?.click());

function show() {
  const thread = document.querySelector(".thread"), turn = thread?.querySelector(".turn.chosen");
  if (turn && thread.scrollHeight > thread.clientHeight) thread.scrollTop = turn.offsetTop - thread.offsetTop - 8;
}
show();
document.addEventListener("htmx:after:swap", show);
