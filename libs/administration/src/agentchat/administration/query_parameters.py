"""Define the query parameters of operations, each with its bounds and description."""

from typing import Annotated, Literal

from msgspec import Meta

MOST_PAGE = 100

After = Annotated[str, Meta(description="The next_cursor of the page before.")]
Limit = Annotated[int, Meta(ge=1, le=MOST_PAGE, description="How many at most.")]
Force = Annotated[bool, Meta(description="Delete it with what hangs on it, and although it is in use.")]
DryRun = Annotated[bool, Meta(description="Change nothing; show what would go.")]
WithLines = Annotated[bool, Meta(description="With `lines` by day, agent and model.")]
OfAccount = Annotated[str, Meta(description="Only those of this account.")]
OfUser = Annotated[str, Meta(min_length=1, description="The end user, as X-User-Id named it.")]
OrderOfUsers = Annotated[
    Literal["last_active_at", "tokens", "conversations"],
    Meta(description="What the list is sorted by, the greatest first."),
]
OfConversation = Annotated[str, Meta(description="Only those of this conversation.")]
OfAgent = Annotated[str, Meta(description="Those that this agent has answered in.")]
Since = Annotated[str, Meta(description="In which something was said then or later: ISO 8601, UTC.")]
RunsSince = Annotated[
    str, Meta(description="Runs that were requested then or later: ISO 8601, UTC; without it of 30 days.")
]
Compared = Annotated[
    int,
    Meta(ge=1, le=2**31 - 1, description="The version that is compared; the newest with a share if unset."),
]
Against = Annotated[
    int, Meta(ge=1, le=2**31 - 1, description="With which; that with the largest share if unset.")
]
Until = Annotated[str, Meta(description="In which something was said before then: ISO 8601, UTC.")]
OfEnd = Annotated[str, Meta(description="With a run in this state: running, completed, failed or cancelled.")]
OfTool = Annotated[str, Meta(min_length=1, description="In which this tool was called.")]
OfRating = Annotated[
    str, Meta(description="With a reply whose feedback has a mean score below 0 (bad) or above (good).")
]
SortBy = Annotated[
    str,
    Meta(
        description="created (default), rank (default with `query`), last_activity, message_count, tokens,"
        " cost, rating or another field, the greatest first; with :asc the least first."
    ),
]
OfState = Annotated[
    str,
    Meta(description="In this state: running, waiting (for an approval), completed, failed or cancelled."),
]
OfCode = Annotated[str, Meta(min_length=1, description="Failed with this error code.")]
OfModel = Annotated[str, Meta(min_length=1, description="Answered by this model.")]
OfAgentOfRun = Annotated[str, Meta(description="Only those of this agent.")]
OfVersion = Annotated[int, Meta(ge=1, le=2**31 - 1, description="Of this version of the agent.")]
ActiveSince = Annotated[str, Meta(description="That ended then or later, or are open: ISO 8601, UTC.")]
ActiveUntil = Annotated[str, Meta(description="That ended before then: ISO 8601, UTC.")]
MinCost = Annotated[float, Meta(ge=0, le=1e12, description="That cost at least this.")]
MinTokens = Annotated[int, Meta(ge=1, le=2**53, description="At least this number of tokens.")]
MinDuration = Annotated[int, Meta(ge=1, le=2**53, description="At least this duration, in ms.")]
SortRunsBy = Annotated[
    str,
    Meta(
        description="A field, the greatest first; with :asc the least first. Of more than 10,000 runs only"
        " the newest are sorted, unless by last_activity, the default."
    ),
]
OfTag = Annotated[str, Meta(description="With this metadata: KEY=VALUE.")]
SearchText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description=(
            'Words, "a phrase", -word, from:user|assistant|feedback|title, user:ID, metadata:KEY=VALUE;'
            " or the id of the conversation, of a trace or of a message."
        ),
    ),
]
OfStatus = Annotated[
    str, Meta(description="Only those with this status: pending, approved, denied, expired or cancelled.")
]
Month = Annotated[
    str, Meta(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$(?!\n)", description="UTC; without it the current one.")
]
OfKind = Annotated[str, Meta(min_length=1, description="Such things: account, key, plan, agent, ...")]
OfSubject = Annotated[str, Meta(min_length=1, description="The thing with this id or name.")]
ByActor = Annotated[str, Meta(min_length=1, description="By this one, such as admin-api.")]
Query = Annotated[str, Meta(min_length=1, description="What is asked.")]
TopK = Annotated[int, Meta(ge=1, le=50, description="How many passages at most.")]
WithDays = Annotated[
    int, Meta(ge=1, le=36_500, description="Count with this number of days instead. Nothing changes.")
]
OfDelivery = Annotated[
    str, Meta(description="Only those with this status: waiting, delivered, failed or erased.")
]
