"""The badge that says how a live page's stream is: `live.js` in Node, with stand-ins for the page."""

import subprocess

import pytest

from agentchat.console.shared.assets import FOLDER
from tests.support.node import require_program

_PAGE = """
const badge = { dataset: {}, replaceChildren() {} };
const stream = new EventTarget();
const fire = (name, detail) =>
  stream.dispatchEvent(Object.assign(new Event(name, { cancelable: true }), { detail }));
globalThis.document = Object.assign(new EventTarget(), {
  title: "Now", hidden: false,
  querySelector: (selector) => (selector === "[data-stream]" ? stream : badge),
  querySelectorAll: () => [], getElementById: () => null, createElement: () => ({}),
});
globalThis.setInterval = () => 0;
const { live } = await import("./live.js");
live();
const connection = { reader: { cancel() {} } };
"""
_MESSAGE = 'fire("htmx:sse:before:message", { connection, message: {} })'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("events", "text"),
    [
        ("", "undefined"),
        ('fire("htmx:sse:after:connection", { connection });', "● live"),
        ('fire("htmx:sse:before:message", { connection, message: { event: "beat" } });', "● live"),
        ('fire("htmx:sse:before:message", { connection, message: { data: "<p>" } });', "● live"),
        (
            'fire("htmx:sse:before:message", { connection, message: {} }); fire("htmx:sse:error", {});',
            "✕ frozen",
        ),
        (f'{_MESSAGE}; fire("htmx:sse:close", {{ reason: "message" }});', "✓ ended"),
    ],
)
def test_badge_follows_the_events_that_arrive(events: str, text: str) -> None:
    """Also if the connection was opened before the script listened."""
    script = f"{_PAGE}{events}\nconsole.log(String(badge.dataset.text));"
    command = [require_program("node"), "--input-type=module", "-e", script]
    found = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(text), found.stderr
