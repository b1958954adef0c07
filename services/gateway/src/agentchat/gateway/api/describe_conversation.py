"""Set title and metadata by a JSON Merge Patch (RFC 7396): PATCH /v1/conversations/{id}."""

from typing import Annotated, Any

import msgspec
from litestar import Response, patch
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from agentchat.bus.commands import describe_conversation
from agentchat.contracts import http
from agentchat.contracts.messages import DescribeConversation
from agentchat.contracts.values import MAX_PAIRS, MAX_TITLE
from agentchat.conversations.queries.conversation_filters import ConversationRow
from agentchat.gateway.access.checks import may_write
from agentchat.gateway.access.idempotency_header import IdempotencyHeader
from agentchat.gateway.api.get_conversation import (
    ConversationId,
    ShownThread,
    parse_conversation_id,
    show_conversation,
)
from agentchat.gateway.http.problems import Refusal, build_conversation_not_found, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.conversation_labels import check_changed_pairs, check_title
from agentchat.gateway.runs.request_hash import claim_command

_TITLE = Meta(min_length=1, max_length=MAX_TITLE)


class DescriptionChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a conversation's title and metadata; a field that is left out stays as it is."""

    title: Annotated[
        Annotated[str, _TITLE] | msgspec.UnsetType | None,
        Meta(description="Not blank; null: the beginning of the first message again."),
    ] = msgspec.UNSET
    metadata: Annotated[
        Annotated[dict[str, Any], http.PAIRS] | msgspec.UnsetType | None,
        Meta(
            description=f"Merged with the pairs that are there, which may be {MAX_PAIRS} in all; null as a "
            "value removes its pair, null as the metadata removes all.",
        ),
    ] = msgspec.UNSET


DescriptionData = Annotated[
    DescriptionChanges,
    BodyKwarg(
        description="What is left out stays as it is. A field that is not known is refused.",
        examples=[
            Example(
                summary="A title, one pair more, another less",
                value={
                    "title": "The parcel of ORD-1001",
                    "metadata": {"customer": "C-77", "draft": None},
                },
            )
        ],
    ),
]


@patch(
    "/v1/conversations/{conversation_id:str}",
    operation_id="describeConversation",
    summary="Set the title and the metadata of a conversation.",
    guards=[may_write],
)
async def describe(
    request: JsonRequest,
    conversation_id: ConversationId,
    data: DescriptionData,
    idempotency_key: IdempotencyHeader = None,  # noqa: ARG001 - read by the guard
) -> Response[ConversationRow]:
    """Change the conversation once for an Idempotency-Key. A run under way continues.

    Returns the conversation as changed. 503 if it is unknown whether it was changed.
    """
    services, context, conversation_id = (
        request.services,
        request.context,
        parse_conversation_id(conversation_id),
    )
    title, metadata = _check_changes(data)
    key = request.state.idempotency_key
    command = DescribeConversation(
        trace_id=context.trace_id,
        account_id=request.auth.account_id,
        user_id=request.auth.user_id,
        conversation_id=conversation_id,
        title=title,
        metadata=metadata,
        keyed=key.text is not None,
    )
    command = await claim_command(services.claims, key, command)
    context.trace_id = command.trace_id
    answer = await describe_conversation(services.bus.rpc, command)
    match answer.outcome:
        case "too_many_pairs":
            raise build_field_refusal("metadata", f"There may be at most {MAX_PAIRS} pairs.")
        case "full":
            raise Refusal("conversation_full")
        case "described":
            return await show_conversation(services.pool, ShownThread(conversation_id, answer.version))
        case _:
            raise build_conversation_not_found()


def _check_changes(
    given: DescriptionChanges,
) -> tuple[str | msgspec.UnsetType | None, dict[str, str | None] | None]:
    """Return the title and the metadata as they can be stored. Raises Refusal: 400."""
    if given.title is msgspec.UNSET and given.metadata is msgspec.UNSET:
        fields = [
            http.FieldError(field=name, message="This field or the other is required.")
            for name in ("title", "metadata")
        ]
        raise Refusal("invalid_request", "The body sets nothing.", fields=fields)
    title = check_title(given.title) if isinstance(given.title, str) else given.title
    if given.metadata is msgspec.UNSET:
        return title, {}
    return title, None if given.metadata is None else check_changed_pairs(given.metadata)
