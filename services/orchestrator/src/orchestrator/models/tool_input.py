"""The input of a tool call as a model has written it: JSON text that came in pieces."""

import json
from typing import Any

from contracts.text import cleaned_json

_NO_OBJECT = "The input is not a JSON object."
_NO_JSON = "The input is not valid JSON."


def read_input(text: str, empty: Any = None) -> tuple[dict[str, Any], str]:
    """The input and what is wrong with it: {} and a sentence for the model, or the input and "".

    `empty` stands for the text where there is none.
    """
    try:
        given = cleaned_json(json.loads(text)) if text else empty or {}
    except (ValueError, RecursionError):
        return {}, _NO_JSON
    return (given, "") if isinstance(given, dict) else ({}, _NO_OBJECT)
