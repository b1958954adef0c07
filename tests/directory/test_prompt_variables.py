"""The variables of a system prompt: what is refused, and how the prompt is filled."""

from typing import Any

import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.agent_validation import AgentDraft, validate_draft
from agentchat.directory.prompt_variables import list_missing_variables, render_prompt

AT = "2026-11-28T23:30:00.000000Z"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"system_prompt": "Hello {{ customer }}."}, "system_prompt"),
        ({"system_prompt": "Hello {{user.name}}.", "variables": ("user",)}, "system_prompt"),
        ({"variables": ("current_date",)}, "variables"),
        ({"variables": ("1st",)}, "variables[0]"),
        ({"time_zone": "Europe/Atlantis"}, "time_zone"),
    ],
)
def test_wrong_variables_are_refused_when_saved(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate_draft(AgentDraft(name="a", model="m", **fields))
    assert refused.value.field in (field, field.partition("[")[0] + "[...]")


@pytest.mark.parametrize(
    ("prompt", "time_zone", "context", "text", "shared"),
    [
        ("Be brief.", "UTC", {"name": "Ada"}, "Be brief.", None),
        ("Hi {{name}}, {{ n }}!", "UTC", {"name": "Ada", "n": 3, "other": 1}, "Hi Ada, 3!", 3),
        ("On {{current_date}}.", "UTC", None, "On 2026-11-28.", 3),
        ("On {{current_date}}.", "Asia/Tokyo", None, "On 2026-11-29.", 3),
        ("{{name}} and {{unknown}}", "UTC", {"name": "{{n}}"}, "{{n}} and {{unknown}}", 0),
    ],
)
def test_prompt_is_filled(
    prompt: str, time_zone: str, context: dict[str, Any] | None, text: str, shared: int | None
) -> None:
    rendered = render_prompt(prompt, ("name", "n"), time_zone, context, AT)
    assert (rendered.text, rendered.shared) == (text, shared)


def test_null_is_no_value() -> None:
    assert list_missing_variables(("a", "b", "c"), {"a": "", "b": None}) == ["b", "c"]
