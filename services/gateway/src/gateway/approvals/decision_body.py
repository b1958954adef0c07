"""The body of a decision about a tool call, checked."""

from administration.checked_input import read_json
from contracts import http
from contracts.admin_errors import Invalid
from gateway.admin.answering import refusal_of
from gateway.approvals.decide_approval import storable
from gateway.http import strict_json
from gateway.http.exchange import Exchange

_INPUT_OF_APPROVED_ALONE = {
    "anyOf": [
        {"properties": {"decision": {"const": "approved"}}},
        {"properties": {"input": {"type": "null"}}},
    ]
}

BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "allOf": [{"$ref": "#/components/schemas/DecisionBody"}, _INPUT_OF_APPROVED_ALONE],
            },
            "examples": {
                "approved": {"summary": "As the model asked", "value": {"decision": "approved"}},
                "edited": {
                    "summary": "With another input, whole",
                    "value": {"decision": "approved", "input": {"order_id": "ORD-1001"}},
                },
                "answered": {
                    "summary": "To an elicitation, with what it asks for",
                    "value": {"decision": "approved", "input": {"country": "AT"}},
                },
                "denied": {
                    "summary": "Not to be run",
                    "value": {"decision": "denied", "reason": "It has left the warehouse."},
                },
            },
        }
    },
}


async def read(exchange: Exchange) -> http.DecisionBody:
    """The body of this request. Raises Refusal: 415, 413, 400; ClientGone."""
    return await strict_json.read_json(exchange, _parse)


def _parse(data: bytes) -> http.DecisionBody:
    try:
        body = read_json(http.DecisionBody, data)
    except Invalid as error:
        raise refusal_of(error) from None
    return storable(body)
