"""Bounds that two services must agree on, in seconds."""

TOOL_ANSWER_SECONDS = 2.0
"""A result is published so long behind the deadline of its call at most, and awaited so long."""
