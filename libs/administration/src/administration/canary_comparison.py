"""Two versions of an agent compared by what each answered in the time in which both did, in one statement."""

from collections.abc import Sequence

import msgspec

from administration.admin_rows import fetch_all
from administration.agent_rows import AgentRow
from contracts.admin_errors import Invalid
from evals.verdict.version_comparison import (
    Sample,
    Slice,
    VersionSample,
    VersionVerdict,
    compare_versions,
)
from experiments.prices import Prices
from runtime.postgres import Connection

MOST_RUNS = 10_000
"""Of a version, about. Of more, a share of its conversations is compared: a statement may take 5 s."""


async def compare(
    conn: Connection, row: AgentRow, *, before: int, after: int, since: str, prices: Prices
) -> VersionVerdict:
    """By the runs that were requested since then, while both versions answered."""
    priced = [{"model": name, **msgspec.to_builtins(each)} for name, each in prices.models.items()]
    named = {
        "agent": row.agent_id,
        "account": row.account_id,
        "since": since,
        "versions": [before, after],
        "most": MOST_RUNS,
        "prices": msgspec.json.encode(priced).decode(),
    }
    found = await fetch_all(conn, _Row, _SAMPLES, named)
    has_cost = all(each.count == each.conversations for each in found if each.figure == "cost")
    known = [each for each in found if has_cost or each.figure != "cost"]
    return compare_versions(_samples(known, before), _samples(known, after))


def prices_of(text: str | None) -> Prices:
    """Of a price table in JSON. Raises Invalid."""
    try:
        return Prices() if text is None else msgspec.json.decode(text, type=Prices)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("prices", f"is no price table: {error}") from None


class _Row(msgspec.Struct, frozen=True):
    """A figure of a version within a slice, over the conversations of which it is known."""

    version: int
    dimension: str
    value: str
    conversations: int
    figure: str
    count: int
    mean: float | None
    variance: float | None


def _samples(found: Sequence[_Row], version: int) -> dict[Slice, VersionSample]:
    figures: dict[Slice, dict[str, Sample]] = {}
    conversations: dict[Slice, int] = {}
    for each in found:
        if each.version == version:
            place = each.dimension, each.value
            conversations[place] = each.conversations
            figures.setdefault(place, {})[each.figure] = Sample(
                count=each.count, mean=each.mean or 0.0, variance=each.variance or 0.0
            )
    return {
        place: VersionSample(conversations=conversations[place], figures=each)
        for place, each in figures.items()
    }


_SAMPLES = """
WITH answers AS (
    SELECT agent_version, min(requested_at) AS first, max(requested_at) AS last, count(*) AS number
      FROM runs
     WHERE account_id = %(account)s AND agent_id = %(agent)s AND requested_at >= %(since)s
       AND ended_at IS NOT NULL AND agent_version = ANY (%(versions)s)
     GROUP BY agent_version
), both_answer AS (
    SELECT max(first) AS first, min(last) AS last FROM answers HAVING count(*) = 2
), sampled AS (
    SELECT runs.* FROM both_answer, answers
      JOIN runs USING (agent_version)
     WHERE account_id = %(account)s AND agent_id = %(agent)s AND ended_at IS NOT NULL
       AND requested_at BETWEEN both_answer.first AND both_answer.last
       AND (hashtext(conversation_id) & 2147483647) %% (1 + answers.number / %(most)s) = 0
), ran AS (
    SELECT agent_version AS version, conversation_id, trace_id, (state = 'completed')::integer AS completed,
           (SELECT avg(score) FROM feedback WHERE feedback.trace_id = sampled.trace_id) AS rating,
           coalesce(failed, 0) AS tool_errors,
           CASE WHEN NOT EXISTS (SELECT FROM approvals WHERE approvals.trace_id = sampled.trace_id)
                THEN extract(epoch FROM ended_at::timestamptz - started_at::timestamptz) END AS seconds,
           input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens AS tokens,
           (price.input * input_tokens + price.output * output_tokens
            + CASE WHEN cache_read_tokens > 0 THEN price.cache_read * cache_read_tokens ELSE 0 END
            + CASE WHEN cache_creation_tokens > 0 THEN price.cache_write * cache_creation_tokens ELSE 0 END)
           / 1e6 AS cost,
           names
      FROM sampled
      LEFT JOIN json_to_recordset(%(prices)s) AS price (model text, input float8, output float8,
                                                       cache_read float8, cache_write float8) USING (model)
      LEFT JOIN LATERAL (SELECT array_agg(DISTINCT name) AS names,
                                max(coalesce(is_error, false)::integer) AS failed
                           FROM tools WHERE tools.trace_id = sampled.trace_id) AS called ON tool_calls > 0
), sliced AS (
    SELECT '' AS dimension, '' AS value, ran.* FROM ran
    UNION ALL
    SELECT 'tools', name, ran.* FROM ran, unnest(coalesce(names, ARRAY['none'])) AS name
), conversation AS (
    SELECT version, dimension, value, avg(completed)::float8 AS completed, avg(rating) AS rating,
           avg(tool_errors)::float8 AS tool_errors, avg(seconds)::float8 AS seconds,
           avg(tokens)::float8 AS tokens,
           CASE WHEN count(cost) = count(*) THEN avg(cost) END AS cost
      FROM sliced GROUP BY version, dimension, value, conversation_id
), added_up AS (
    SELECT version, dimension, value, count(*) AS conversations,
           count(completed) AS completed_n, avg(completed) AS completed, var_samp(completed) AS completed_var,
           count(rating) AS rating_n, avg(rating) AS rating, var_samp(rating) AS rating_var,
           count(tool_errors) AS errors_n, avg(tool_errors) AS errors, var_samp(tool_errors) AS errors_var,
           count(seconds) AS seconds_n, avg(seconds) AS seconds, var_samp(seconds) AS seconds_var,
           count(tokens) AS tokens_n, avg(tokens) AS tokens, var_samp(tokens) AS tokens_var,
           count(cost) AS cost_n, avg(cost) AS cost, var_samp(cost) AS cost_var
      FROM conversation GROUP BY version, dimension, value
)
SELECT version, dimension, value, conversations, figure, known, mean, variance
  FROM added_up, LATERAL (VALUES
       ('completed', completed_n, completed, completed_var), ('rating', rating_n, rating, rating_var),
       ('tool_errors', errors_n, errors, errors_var), ('seconds', seconds_n, seconds, seconds_var),
       ('tokens', tokens_n, tokens, tokens_var), ('cost', cost_n, cost, cost_var)
       ) AS figures (figure, known, mean, variance)
"""
