"""Ask before an action that cannot be taken back: one question for the whole console.

A handler calls `ask` with the form that it has received. The answer is a page with the question or, for a
script, only the question, which `confirm.js` shows over the page.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from litestar import Response
from litestar.datastructures import FormMultiDict

from agentchat.console.shared.access_check import AnyRequest
from agentchat.console.shared.rendering import render_page
from agentchat.contracts.admin_errors import Use
from agentchat.contracts.text_checks import format_count

_OWN = ("_csrf_token", "confirmed", "typed", "back", "about")


class DropDown(msgspec.Struct, frozen=True, kw_only=True):
    """A drop-down of a question: words by the value that is sent as `name`, the default first."""

    name: str
    label: str
    options: Mapping[str, str]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """An action that a person confirms: `text` says what will happen, and `back` is the page to return to.

    `shown` is what is sent, such as a tool's input. `typed` is a name that must be typed; "" if the button is
    enough. `about` is what may change until the answer, such as the run under way: then it is asked again.
    With `in_place` the question replaces the card that it is about, as does the answer. `look` is the
    class of the button.
    """

    title: str
    text: str
    button: str
    back: str
    shown: str = ""
    typed: str = ""
    about: str = ""
    choice: DropDown | None = None
    in_place: bool = False
    look: Literal["danger", "main"] = "danger"


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that is not confirmed yet, with the fields of the form that asked for the action."""

    question: Question
    fields: tuple[tuple[str, str], ...]
    problem: str = ""


def find_unconfirmed(given: FormMultiDict, question: Question) -> OpenQuestion | None:
    """Return the question if the form does not confirm it."""
    problem = ""
    if "confirmed" in given:
        if str(given.get("about", "")) != question.about:
            problem = "This was done meanwhile, or has changed since you were asked. Nothing was changed."
        elif str(given.get("typed", "")) != question.typed:
            problem = f"This is not {question.typed}. Nothing was changed."
        else:
            return None
    own = (*_OWN, question.choice.name) if question.choice else _OWN
    fields = tuple((name, str(value)) for name, value in given.multi_items() if name not in own)
    return OpenQuestion(question=question, fields=fields, problem=problem)


def ask(request: AnyRequest, given: FormMultiDict, question: Question) -> Response[Any] | None:
    """Return the page that asks, None if the person has confirmed."""
    found = find_unconfirmed(given, question)
    if found is None:
        return None
    template = "parts/question.html" if request.headers.get("hx-request") else "question.html"
    return render_page(request, template, title=question.title, open=found)


def describe_uses(uses: Sequence[Use]) -> str:
    """Return what a deletion concerns, such as "2 keys and 1 agent"; "nothing else" for nothing."""
    words = [format_count(use.count, use.kind.removesuffix("s")) for use in uses]
    if not words:
        return "nothing else"
    return " and ".join(([", ".join(words[:-1])] if words[1:] else []) + words[-1:])
