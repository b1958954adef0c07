"""References in an agent's output schema may be percent-encoded, as generators write them."""

from typing import Any
from urllib.parse import quote

import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.output_schema import check_output_schema


def make_schema(name: str, reference: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"item": {"$ref": reference}},
        "$defs": {name: {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }


@pytest.mark.parametrize("name", ["Item", "Line Item", "List[int]", "50%", "a/b", "a~b", "Ünit", "«x»"])
def test_encoded_reference_is_followed(name: str) -> None:
    token = quote(name.replace("~", "~0").replace("/", "~1"), safe="")
    check_output_schema(make_schema(name, f"#/$defs/{token}"))
    check_output_schema(make_schema(name, f"#/%24defs/{token}/properties/n"))


@pytest.mark.parametrize("reference", ["#/$defs/Item%20", "#/$defs/%49tem%2F", "%23/$defs/Item", "#/%"])
def test_reference_to_nothing_is_refused(reference: str) -> None:
    with pytest.raises(Invalid, match="does not lead to a schema"):
        check_output_schema(make_schema("Item", reference))
