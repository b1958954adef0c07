"""What goes in and what comes out, of the admin API and of the commands. Times are UTC; only IssuedKey shows
a secret.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from agentchat.contracts.admin_errors import Use
from agentchat.contracts.values import Approvers, OnExpiry, OnNewMessage
from agentchat.directory import agent_draft
from agentchat.directory.agent_config import (
    ApprovalSeconds,
    BaseUrl,
    MaxCallSeconds,
    MaxToolRounds,
    OnInterruption,
    OutputType,
    Retrieval,
    SystemPrompt,
)
from agentchat.directory.approval_policy import ApprovalPolicy
from agentchat.directory.changes import Changes
from agentchat.directory.compaction_settings import Compaction
from agentchat.knowledge.documents import Kind

T = TypeVar("T")

UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
Id = Annotated[str, msgspec.Meta(pattern=UUID)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
PlanName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$(?!\n)")]
Url = Annotated[str, msgspec.Meta(max_length=2048)]
KeyName = Annotated[str, msgspec.Meta(max_length=200)]
MAX_MESSAGE_BYTES = 256 * 1024
Version = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """What goes, or would go where it is a `dry_run`.

    `needs_force`: without force it would be refused; only a dry run says so. `used_by`: what stays, and has
    to do without it from then on.
    """

    kind: str
    id: str
    dry_run: bool
    needs_force: bool = False
    goes: tuple[Use, ...] = ()
    used_by: tuple[Use, ...] = ()


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; `after` asks for the next one, and is None on the last."""

    items: tuple[T, ...]
    after: str | None = None


class NewAccount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`id`: one of the caller's own making, for set-ups that are to be repeated."""

    name: Name
    plan: PlanName = "Starter"
    id: Id | None = None


class AccountChanges(Changes, frozen=True, kw_only=True):
    """What is left out stays."""

    name: Name | UnsetType = UNSET
    plan: PlanName | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a disabled account open nothing."""

    id: str
    name: str
    plan: str
    disabled: bool
    created_at: datetime


class NewPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Null is no limit. The largest message is 256 KiB on every plan."""

    name: PlanName
    requests_per_minute: Count | None = None
    concurrent_runs: Count | None = None
    tokens_per_month: Tokens | None = None
    form2_streaming: bool = True
    max_message_bytes: Count | None = None
    storage_bytes: Bytes | None = None


class PlanChanges(Changes, frozen=True, kw_only=True):
    """What is left out stays; null is no limit."""

    requests_per_minute: Count | UnsetType | None = UNSET
    concurrent_runs: Count | UnsetType | None = UNSET
    tokens_per_month: Tokens | UnsetType | None = UNSET
    form2_streaming: bool | UnsetType = UNSET
    max_message_bytes: Count | UnsetType | None = UNSET
    storage_bytes: Bytes | UnsetType | None = UNSET


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`name` is for people, such as where the key is used."""

    name: KeyName = ""


class KeyChanges(Changes, frozen=True, kw_only=True):
    """What is left out stays."""

    name: KeyName | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A disabled one opens nothing. `last_used_at` is exact to the minute, and since the key was rotated."""

    id: str
    account_id: str
    name: str
    last4: str
    disabled: bool
    created_at: datetime
    last_used_at: datetime | None
    rotated_at: datetime | None
    revoked_at: datetime | None


class IssuedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key at the one moment when it can be seen."""

    id: str
    key: str
    last4: str
    account_id: str
    name: str

    def __repr__(self) -> str:
        """Without the key."""
        return f"IssuedKey(id={self.id!r}, last4={self.last4!r})"


class NewAgent(agent_draft.AgentDraft, frozen=True, kw_only=True):
    """A whole configuration for an agent of the account."""

    account_id: Id
    id: Id | None = None


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to `version` of an agent; the current one if left out.

    It goes on with the playground conversation `conversation_id`, or with a fork of any conversation of the
    account: of what came before the user's message `fork_at`, or up to the reply `fork_at`.
    """

    message: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MESSAGE_BYTES)]
    version: Version | None = None
    conversation_id: Id | None = None
    fork_at: Id | None = None


class RunReference(msgspec.Struct, frozen=True, kw_only=True):
    """A run, and who answers in it."""

    conversation_id: str
    trace_id: str
    agent_id: str
    version: int


class SecretHint(msgspec.Struct, frozen=True, kw_only=True):
    """Whether there is one, and its end where it is long enough to show that."""

    set: bool
    last4: str | None = None


class ShownServer(msgspec.Struct, frozen=True, kw_only=True):
    """`header_names` is null where the headers do not open under the present secret key."""

    name: str
    url: str
    header_names: tuple[str, ...] | None
    allowed_tools: tuple[str, ...] | None
    disabled: bool
    require_approval: ApprovalPolicy
    elicitation: bool
    max_call_seconds: int


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an agent; `changed_at` is when that was made. With no key set it has the
    service's own.
    """

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
    parameters: dict[str, Any]
    max_tool_rounds: MaxToolRounds
    output_type: OutputType
    output_schema: dict[str, Any] | None
    allow_request_schema: bool
    mcp_servers: tuple[ShownServer, ...]
    on_interruption: OnInterruption
    retrieval: Retrieval | None
    approvers: Approvers
    approval_seconds: ApprovalSeconds
    on_expiry: OnExpiry
    on_new_message: OnNewMessage
    compaction: Compaction | None
    provider_key: SecretHint


class AgentVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version in a list; `current` answers, or where some have a `share` those do."""

    version: int
    current: bool
    created_at: datetime
    name: str
    model: str
    share: int | None = None


class ServerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole tool server, for the name that the address has. `headers` that are left out stay."""

    url: BaseUrl
    headers: dict[str, str] | UnsetType = UNSET
    allowed_tools: tuple[str, ...] | None = None
    disabled: bool = False
    require_approval: ApprovalPolicy = "never"
    elicitation: bool = True
    max_call_seconds: MaxCallSeconds = 30

    def __repr__(self) -> str:
        """Without the headers' values: they are credentials, and a repr ends in logs."""
        return f"{type(self).__name__}(url={self.url!r}, headers={sorted(self.headers or ())})"


class NewKnowledgeBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`language` stems its words: one that the database can search by; "simple" is for all others."""

    account_id: Id
    name: Name
    language: Annotated[str, msgspec.Meta(pattern=r"^[a-z_]{1,63}$(?!\n)")] = "english"
    id: Id | None = None


class KnowledgeBaseChanges(Changes, frozen=True, kw_only=True):
    """What is left out stays."""

    name: Name | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class KnowledgeBase(msgspec.Struct, frozen=True, kw_only=True):
    """Agents find nothing in a disabled one. `documents` and `chunks` are counts."""

    id: str
    account_id: str
    name: str
    language: str
    disabled: bool
    created_at: datetime
    documents: int
    chunks: int


class DocumentBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document's content; `title` and `url` come before what it says of itself.

    `content` stands for `text` where `kind` is pdf or docx: the file, in Base64.
    """

    text: str = ""
    kind: Kind = "text"
    content: bytes | None = None
    title: Name | None = None
    url: Url | None = None


class NewDocument(DocumentBody, frozen=True, kw_only=True):
    """A document under a `name`, which is its identity in the knowledge base."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is its identity in the knowledge base; `url` is empty where it has none.

    `characters` is the length of what was handed in; `chunks` how many passages it was cut into.
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
    """`lacking` says why some chunks have no embedding yet: they are found by their words alone."""

    document: Document
    outcome: str
    lacking: str | None = None


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what to which subject, when; `before` and `after` hold no secret."""

    id: int
    at: datetime
    actor: str
    action: str
    kind: str
    subject: str
    before: Any
    after: Any
