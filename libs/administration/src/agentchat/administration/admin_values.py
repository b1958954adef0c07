"""Define the inputs and outputs of the admin API. Times are UTC, and no secret is shown."""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from agentchat.contracts.admin_errors import Use
from agentchat.contracts.retention_rule import RetentionDays
from agentchat.contracts.values import Approvers, OnBusy, OnExpiry, OnNewMessage
from agentchat.directory import agent_validation
from agentchat.directory.agent_config import (
    AllowedTools,
    ApprovalSeconds,
    BaseUrl,
    ClientToolsPolicy,
    Elicitation,
    FallbackReason,
    HeadersFromRequest,
    MaxCallSeconds,
    MaxToolRounds,
    OnInterruption,
    OnToolServerError,
    OutputType,
    Reasoning,
    RequestParameters,
    Retrieval,
    ServerDisabled,
    ServerHeaders,
    ServerUrl,
    SystemPrompt,
)
from agentchat.directory.approval_policy import ApprovalPolicy
from agentchat.directory.compaction_settings import Compaction
from agentchat.directory.partial_update import Changes
from agentchat.directory.prompt_variables import TimeZone, Variables
from agentchat.knowledge.documents import Kind

T = TypeVar("T")

UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
Id = Annotated[str, msgspec.Meta(pattern=UUID)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
PlanName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$(?!\n)")]
Url = Annotated[str, msgspec.Meta(max_length=2048)]
MAX_MESSAGE_BYTES = 256 * 1024
Version = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Money = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
"""An amount in the currency of the price table."""
Budget = Annotated[
    Money,
    msgspec.Meta(
        description="What its runs may cost in a month (UTC), in the currency of the prices. There is a "
        "warning at 80 %; at 100 % messages are refused. Blank: no budget."
    ),
]
UserBudget = Annotated[Money, msgspec.Meta(description="The same for each end user of the account.")]
RequireUser = Annotated[bool, msgspec.Meta(description="Refuse requests that name no end user (X-User-Id).")]


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion, or with `dry_run` its preview: `goes` lists what is deleted.

    `needs_force`, set in a dry run only: without force it would be refused. `used_by` lists what stays and
    loses its reference. `pending`: the deletion continues after this answer, and `goes` is what is left.
    """

    kind: str
    id: str
    dry_run: bool
    needs_force: bool = False
    goes: tuple[Use, ...] = ()
    used_by: tuple[Use, ...] = ()
    pending: bool = False


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list; `after` is the position of the next one, None on the last.

    `total` counts all pages' items, on the first page of a list that is counted; if not `is_total_exact`
    there may be more.
    """

    items: tuple[T, ...]
    after: str | None = None
    total: int | None = None
    is_total_exact: bool = True


class NewAccount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account; callers may choose the `id`, for repeatable set-ups. Null is no budget."""

    name: Name
    plan: PlanName = "Starter"
    require_user: RequireUser = False
    monthly_budget: Budget | None = None
    user_monthly_budget: UserBudget | None = None
    retention_days: RetentionDays | None = None
    id: Id | None = None


class AccountChanges(Changes, frozen=True, kw_only=True):
    """Changes of an account; omitted fields stay, null is no budget."""

    name: Name | UnsetType = UNSET
    plan: PlanName | UnsetType = UNSET
    require_user: RequireUser | UnsetType = UNSET
    monthly_budget: Budget | UnsetType | None = UNSET
    user_monthly_budget: UserBudget | UnsetType | None = UNSET
    retention_days: RetentionDays | UnsetType | None = UNSET
    disabled: bool | UnsetType = UNSET


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account. The keys of a disabled account are refused.

    `deleting`: its conversations are being erased, then it is gone.
    With `require_user` each chat and conversation request must name its end user (X-User-Id).
    `monthly_budget`, and `user_monthly_budget` of each end user, is the cost in a month (UTC) at which
    messages are refused, in the currency of the price table. Conversations without a message for
    `retention_days` are deleted; None keeps them.
    """

    id: str
    name: str
    plan: str
    require_user: bool
    disabled: bool
    created_at: datetime
    deleting: bool = False
    monthly_budget: float | None = None
    user_monthly_budget: float | None = None
    retention_days: int | None = None


class NewPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new plan; null is no limit. The largest message is 256 KiB on every plan."""

    name: PlanName
    requests_per_minute: Count | None = None
    concurrent_runs: Count | None = None
    tokens_per_month: Tokens | None = None
    form2_streaming: bool = True
    max_message_bytes: Count | None = None
    storage_bytes: Bytes | None = None
    user_requests_per_minute: Count | None = None
    user_concurrent_runs: Count | None = None
    user_tokens_per_month: Tokens | None = None


class PlanChanges(Changes, frozen=True, kw_only=True):
    """Changes of a plan; omitted fields stay, null is no limit."""

    requests_per_minute: Count | UnsetType | None = UNSET
    concurrent_runs: Count | UnsetType | None = UNSET
    tokens_per_month: Tokens | UnsetType | None = UNSET
    form2_streaming: bool | UnsetType = UNSET
    max_message_bytes: Count | UnsetType | None = UNSET
    storage_bytes: Bytes | UnsetType | None = UNSET
    user_requests_per_minute: Count | UnsetType | None = UNSET
    user_concurrent_runs: Count | UnsetType | None = UNSET
    user_tokens_per_month: Tokens | UnsetType | None = UNSET


class NewAgent(agent_validation.AgentDraft, frozen=True, kw_only=True):
    """A complete configuration for a new agent of the account."""

    account_id: Id
    id: Id | None = None
    retention_days: RetentionDays | None = None


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to `version` of an agent; the current one if left out.

    It goes on with the playground conversation `conversation_id`, or with a fork of any conversation of the
    account: of what came before the user's message `fork_at`, or up to the reply `fork_at`. `context` has the
    values of the agent's variables.
    """

    message: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MESSAGE_BYTES)]
    version: Version | None = None
    conversation_id: Id | None = None
    fork_at: Id | None = None
    context: dict[str, Any] = {}


class RunReference(msgspec.Struct, frozen=True, kw_only=True):
    """A started run, with the version of the agent that answers."""

    conversation_id: str
    trace_id: str
    agent_id: str
    version: int


class SecretHint(msgspec.Struct, frozen=True, kw_only=True):
    """A hint at a secret: if it is set, and its last characters if it is long enough."""

    set: bool
    last4: str | None = None


class ShownServer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool server; `header_names` is null if the headers cannot be opened with the secret key."""

    name: str
    url: str
    header_names: tuple[str, ...] | None
    allowed_tools: tuple[str, ...] | None
    disabled: bool
    require_approval: ApprovalPolicy
    elicitation: bool
    max_call_seconds: int
    headers_from_request: dict[str, str]


class ShownFallback(msgspec.Struct, frozen=True, kw_only=True):
    """A fall-back, with a hint at its own key."""

    provider: str
    model: str
    base_url: str | None
    provider_key: SecretHint | UnsetType
    parameters: dict[str, Any] | None
    on: tuple[FallbackReason, ...]


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an agent, made at `changed_at`. Without a provider key the service's is used."""

    id: str
    account_id: str
    version: int
    disabled: bool
    created_at: datetime
    changed_at: datetime
    name: Name
    provider: str
    model: Name
    base_url: BaseUrl | None
    system_prompt: SystemPrompt
    variables: Variables
    time_zone: TimeZone
    parameters: dict[str, Any]
    max_tool_rounds: MaxToolRounds
    output_type: OutputType
    output_schema: dict[str, Any] | None
    allow_request_schema: bool
    request_parameters: RequestParameters
    mcp_servers: tuple[ShownServer, ...]
    on_interruption: OnInterruption
    on_tool_server_error: OnToolServerError
    retrieval: Retrieval | None
    approvers: Approvers
    approval_seconds: ApprovalSeconds
    on_expiry: OnExpiry
    on_new_message: OnNewMessage
    on_busy: OnBusy
    client_tools: ClientToolsPolicy
    reasoning: Reasoning
    vision: bool | None
    compaction: Compaction | None
    fallbacks: tuple[ShownFallback, ...]
    provider_key: SecretHint
    retention_days: int | None = None


class AgentVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version in a list. The `current` version answers, or those with a `share` if there are any.

    `author` is the actor of its audit row. `restored_from` is the version that it is equal to.
    """

    version: int
    current: bool
    created_at: datetime
    name: str
    model: str
    share: int | None = None
    author: str | None = None
    note: str | None = None
    restored_from: int | None = None


class ServerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A complete tool server; its name is in the path. Omitted `headers` stay."""

    url: ServerUrl
    headers: ServerHeaders | UnsetType = UNSET
    allowed_tools: AllowedTools | None = None
    disabled: ServerDisabled = False
    require_approval: ApprovalPolicy = "never"
    elicitation: Elicitation = True
    max_call_seconds: MaxCallSeconds = 30
    headers_from_request: HeadersFromRequest = {}

    def __repr__(self) -> str:
        """Leave out the headers' values: they are credentials, and a repr may be logged."""
        return f"{type(self).__name__}(url={self.url!r}, headers={sorted(self.headers or ())})"


class NewKnowledgeBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new knowledge base; `language` is a text search configuration, "simple" for other languages."""

    account_id: Id
    name: Name
    language: Annotated[str, msgspec.Meta(pattern=r"^[a-z_]{1,63}$(?!\n)")] = "english"
    id: Id | None = None


class KnowledgeBaseChanges(Changes, frozen=True, kw_only=True):
    """Changes of a knowledge base; omitted fields stay."""

    name: Name | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class KnowledgeBase(msgspec.Struct, frozen=True, kw_only=True):
    """A knowledge base, with its numbers of documents and chunks. A disabled one finds nothing."""

    id: str
    account_id: str
    name: str
    language: str
    disabled: bool
    created_at: datetime
    documents: int
    chunks: int


class DocumentBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document's content; `title` and `url` replace its own.

    For the kinds pdf and docx, `content` is the file in Base64, instead of `text`.
    """

    text: str = ""
    kind: Kind = "text"
    content: bytes | None = None
    title: Name | None = None
    url: Url | None = None


class NewDocument(DocumentBody, frozen=True, kw_only=True):
    """A new document; `name` identifies it in the knowledge base."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document, identified by its `name` in the knowledge base; `url` is empty if it has none.

    `characters` is the length of its text, `chunks` the number of its passages.
    """

    id: str
    knowledge_base_id: str
    name: str
    title: str
    url: str
    kind: str
    characters: int
    chunks: int
    imported_at: datetime


class PutDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an import.

    `lacking` says why some chunks have no embedding yet: they are found by full text. `warnings` say what of
    a file could not be read, such as a page of a PDF.
    """

    document: Document
    outcome: str
    lacking: str | None = None
    warnings: tuple[str, ...] = ()


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """An audit row; `before` and `after` hold no secrets.

    `subject_name` was the subject's name at that time, or that of the account that it belongs to.
    """

    id: int
    at: datetime
    actor: str
    action: str
    kind: str
    subject: str
    subject_name: str | None
    before: Any
    after: Any
