"""The input of a tool call as a model has written it: JSON text that came in pieces."""

import json
from typing import Any

from contracts.text import cleaned_json

_NO_OBJECT = "The input is not a JSON object."
_NO_JSON = "The input is not valid JSON."
_CUT = "The reply reached its limit before the input was whole."


def read_input(text: str, begun_with: Any = None, *, cut: bool = False) -> tuple[dict[str, Any], str]:
    """The input and what is wrong with it: {} and a sentence for the model, or the input and "".

    `begun_with` stands for the text where there is none. `cut`: the reply was ended by a limit, which may
    be why there is no text.
    """
    try:
        given = cleaned_json(json.loads(text) if text else begun_with or {})
    except (ValueError, RecursionError):
        return {}, _CUT if cut else _NO_JSON
    if cut and not text and not given:
        return {}, _CUT
    return (given, "") if isinstance(given, dict) else ({}, _NO_OBJECT)
