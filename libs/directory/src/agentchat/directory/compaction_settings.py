"""Configure how an agent's long threads are kept within its model's context window."""

from typing import Annotated, Literal

import msgspec

PROMPT = """\
Summarise this conversation so far. Your summary takes its place: whoever continues the conversation \
sees the summary and nothing else of what stands above.

Keep what the user said of himself and what he wants; names, ids, numbers, dates and addresses exactly as \
they stand; what was found out, by which tool; what was decided, promised, done, refused and left open; \
the language and the tone. If there is a summary above, take over what it holds. Leave out pleasantries \
and what was corrected later. Answer with only the summary, in at most 1,000 words; do not go on with the \
conversation and call no tool."""

COMPACTING = ("anthropic",)
"""Providers with a summary function of their own."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for summarising the earlier runs of a thread.

    If the next call is expected to fill `at_share` of `context_window` (in tokens of the agent's model), all
    runs but the last `keep_runs` are summarised. With `by` "own", the model writes the summary, asked with
    `prompt`. With "provider", the provider's own function does, with its instructions unless `prompt` is set.
    """

    by: Literal["own", "provider"] = "own"

    context_window: Annotated[int, msgspec.Meta(ge=1_000, le=100_000_000)] = 200_000
    at_share: Annotated[float, msgspec.Meta(ge=0.1, le=0.95)] = 0.8
    keep_runs: Annotated[int, msgspec.Meta(ge=0, le=100)] = 4
    prompt: Annotated[str, msgspec.Meta(min_length=1, max_length=16_384)] = PROMPT

    @property
    def at_tokens(self) -> float:
        """The number of tokens from which the thread is summarised."""
        return self.context_window * self.at_share

    @property
    def instruction(self) -> str:
        """The text that asks for a summary; "" to use the provider's own."""
        return "" if self.by == "provider" and self.prompt == PROMPT else self.prompt
