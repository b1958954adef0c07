"""Plans: the numbers an account is held to. They are data, and seeded by the migrations."""

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """None means no limit. `form2_streaming`: the stream endpoint is served in form 2 (design 6)."""

    name: str
    requests_per_minute: int | None
    concurrent_runs: int | None
    tokens_per_month: int | None
    form2_streaming: bool
    max_message_bytes: int | None
