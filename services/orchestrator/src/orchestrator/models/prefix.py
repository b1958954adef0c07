"""Hashes of what a prompt begins with: replies with equal ones were asked for with the same prefix."""

import hashlib

import msgspec

from orchestrator.models.port import ModelCall


def prompt_sha256(call: ModelCall) -> str:
    """Of the system prompt as it is sent, in hexadecimal."""
    return text_sha256(call.system)


def text_sha256(text: str) -> str:
    """In hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def tools_sha256(call: ModelCall) -> str:
    """Of what the model is shown of the tools, in their order, in hexadecimal."""
    shown = [
        {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
        for spec in call.tools
    ]
    return hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()
