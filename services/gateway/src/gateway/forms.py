"""The header X-Stream-Form, by which a request chooses the form of its stream."""

from contracts import sse
from gateway.exchange import Exchange
from gateway.problems import Refusal, invalid

NAME = "X-Stream-Form"
FORMS: dict[bytes, sse.Form] = {b"1": "form1", b"2": "form2"}


def form_of(exchange: Exchange) -> sse.Form | None:
    """The form that is asked for; None where none is. Raises Refusal."""
    asked = exchange.header(NAME.lower().encode())
    if not asked:
        return None
    if len(asked) > 1 or asked[0] not in FORMS:
        raise wrong_form()
    return FORMS[asked[0]]


def wrong_form() -> Refusal:
    """400."""
    return invalid(NAME, "This header must be 1 or 2, or be left out.")
