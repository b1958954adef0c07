-- What analysts read. Columns are only added, at the end: a released one keeps its name, type and meaning.
CREATE SCHEMA IF NOT EXISTS analytics;

CREATE OR REPLACE VIEW analytics.conversations AS
SELECT conversation_id, account_id, agent_id, user_id, external_id, coalesce(given_title, title) AS title, metadata,
       message_count, listed, source_id AS forked_from,
       created_at::timestamptz AS created_at, updated_at::timestamptz AS updated_at
  FROM {conversations} AS conversation
 WHERE NOT EXISTS (SELECT FROM conversation_events AS erased WHERE topic = 'conversation_erased.v1'
                      AND erased.originator_id = conversation.conversation_id);
COMMENT ON VIEW analytics.conversations IS 'One row for each conversation that is not deleted';
COMMENT ON COLUMN analytics.conversations.agent_id IS 'The agent of the last message';
COMMENT ON COLUMN analytics.conversations.user_id IS 'The end user; null without one';
COMMENT ON COLUMN analytics.conversations.external_id IS 'The id that the caller gave it';
COMMENT ON COLUMN analytics.conversations.title IS 'The title that was set, or the beginning of the first message';
COMMENT ON COLUMN analytics.conversations.metadata IS 'Labels of the caller';
COMMENT ON COLUMN analytics.conversations.message_count IS 'Messages of the user and the assistant';
COMMENT ON COLUMN analytics.conversations.listed IS 'False for conversations that lists leave out, such as a playground''s';
COMMENT ON COLUMN analytics.conversations.forked_from IS 'The conversation of which this one is a fork';
COMMENT ON COLUMN analytics.conversations.updated_at IS 'The time of the last message';

CREATE OR REPLACE VIEW analytics.runs AS
SELECT trace_id, conversation_id, account_id, user_id, agent_id, agent_version, model, form, state, code, attempts,
       rounds, tool_calls, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens,
       input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens AS tokens, cost, first_token_ms,
       (SELECT avg(score) FROM {feedback} AS feedback WHERE feedback.trace_id = run.trace_id) AS rating,
       duration_ms,
       requested_at::timestamptz AS requested_at, started_at::timestamptz AS started_at,
       ended_at::timestamptz AS ended_at,
       run.ended_at IS NULL AND EXISTS (
           SELECT FROM {approvals} AS asked WHERE asked.trace_id = run.trace_id AND asked.status = 'pending') AS is_waiting
  FROM {runs} AS run;
COMMENT ON VIEW analytics.runs IS 'One row for each run, also of deleted conversations';
COMMENT ON COLUMN analytics.runs.conversation_id IS 'Null if the conversation was deleted';
COMMENT ON COLUMN analytics.runs.user_id IS 'The end user; null without one, or if the user was deleted';
COMMENT ON COLUMN analytics.runs.model IS 'The model of the last reply';
COMMENT ON COLUMN analytics.runs.form IS 'The form of the request''s answer, such as json';
COMMENT ON COLUMN analytics.runs.state IS 'running (also while it is_waiting), completed, failed or cancelled';
COMMENT ON COLUMN analytics.runs.code IS 'Why it failed or was cancelled';
COMMENT ON COLUMN analytics.runs.attempts IS 'More than 1 if a worker was lost or a person decided meanwhile';
COMMENT ON COLUMN analytics.runs.rounds IS 'Calls of the model';
COMMENT ON COLUMN analytics.runs.tokens IS 'The sum of the four kinds';
COMMENT ON COLUMN analytics.runs.cost IS 'At the prices of its time; null if tokens have no price';
COMMENT ON COLUMN analytics.runs.first_token_ms IS 'From the message to the first token; null if there was no text';
COMMENT ON COLUMN analytics.runs.rating IS 'The mean score of its reply''s feedback';
COMMENT ON COLUMN analytics.runs.is_waiting IS 'It waits for a decision about a tool call: see approvals';
COMMENT ON COLUMN analytics.runs.duration_ms IS 'From started_at to ended_at, with the time that it waited for people';

CREATE OR REPLACE VIEW analytics.messages AS
SELECT message_id, message.conversation_id, message.account_id, conversation.user_id, run.agent_id, run.agent_version,
       message.trace_id, role, content, token_count,
       run.trace_id IS NULL AND conversation.source_id IS NOT NULL AS is_copy,
       message.created_at::timestamptz AS created_at
  FROM {messages} AS message
  LEFT JOIN {conversations} AS conversation ON conversation.conversation_id = message.conversation_id
  LEFT JOIN {runs} AS run ON run.trace_id = message.trace_id
 WHERE NOT EXISTS (SELECT FROM conversation_events AS erased WHERE topic = 'conversation_erased.v1'
                      AND erased.originator_id = message.conversation_id);
COMMENT ON VIEW analytics.messages IS 'One row for each message of a user or the assistant';
COMMENT ON COLUMN analytics.messages.agent_id IS 'The agent that was asked, or that replied';
COMMENT ON COLUMN analytics.messages.trace_id IS 'The run';
COMMENT ON COLUMN analytics.messages.role IS 'user or assistant';
COMMENT ON COLUMN analytics.messages.token_count IS 'Tokens of the run that replied; null for a user''s message';
COMMENT ON COLUMN analytics.messages.is_copy IS 'True for what a fork took over: leave copies out to count messages';

CREATE OR REPLACE VIEW analytics.tool_calls AS
SELECT call.trace_id, call.call_id, call.conversation_id, call.account_id, run.user_id, run.agent_id, run.agent_version,
       call.name,
       CASE WHEN is_error IS NULL AND run.ended_at IS NULL THEN 'running' WHEN is_error IS NULL THEN 'lost'
            WHEN approval.status IN ('denied', 'expired') THEN 'denied' WHEN is_error THEN 'failed'
            ELSE 'completed' END AS state,
       ms AS duration_ms, called_at::timestamptz AS called_at
  FROM {tools} AS call
  LEFT JOIN {runs} AS run ON run.trace_id = call.trace_id
  LEFT JOIN {approvals} AS approval ON approval.trace_id = call.trace_id AND approval.call_id = call.call_id
 WHERE NOT EXISTS (SELECT FROM conversation_events AS erased WHERE topic = 'conversation_erased.v1'
                      AND erased.originator_id = call.conversation_id);
COMMENT ON VIEW analytics.tool_calls IS 'One row for each call of a tool';
COMMENT ON COLUMN analytics.tool_calls.trace_id IS 'The run';
COMMENT ON COLUMN analytics.tool_calls.name IS 'The tool';
COMMENT ON COLUMN analytics.tool_calls.state IS
    'running (or waiting for a person), completed, failed (it returned an error), denied (a person or the time-out refused it) or lost (its run ended without its result)';
COMMENT ON COLUMN analytics.tool_calls.duration_ms IS 'Of the call itself';

CREATE OR REPLACE VIEW analytics.feedback AS
SELECT message_id, given.trace_id, given.conversation_id, given.account_id, run.user_id, run.agent_id,
       run.agent_version, nullif(on_behalf_of, '') AS on_behalf_of, score, label, comment,
       given_at::timestamptz AS given_at
  FROM {feedback} AS given LEFT JOIN {runs} AS run ON run.trace_id = given.trace_id
 WHERE NOT EXISTS (SELECT FROM conversation_events AS erased WHERE topic = 'conversation_erased.v1'
                      AND erased.originator_id = given.conversation_id);
COMMENT ON VIEW analytics.feedback IS 'One row for each reply and name, with the newest feedback';
COMMENT ON COLUMN analytics.feedback.trace_id IS 'The run of the reply';
COMMENT ON COLUMN analytics.feedback.on_behalf_of IS 'For whom it was given; null without a name';
COMMENT ON COLUMN analytics.feedback.score IS 'From -1 to 1';

CREATE OR REPLACE VIEW analytics.usage_by_day AS
SELECT day::date AS day, account_id, nullif(agent_id, '') AS agent_id, nullif(agent_version, 0) AS agent_version,
       nullif(model, '') AS model, runs, failed, cancelled, rounds, milliseconds AS duration_ms,
       input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens,
       input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens AS tokens,
       cost, unpriced
  FROM {usage_by_day};
COMMENT ON VIEW analytics.usage_by_day IS 'Sums of the runs that ended on a day; the lines of GET /v1/usage';
COMMENT ON COLUMN analytics.usage_by_day.day IS 'The day of ended_at (UTC)';
COMMENT ON COLUMN analytics.usage_by_day.runs IS 'All, the failed and cancelled ones too';
COMMENT ON COLUMN analytics.usage_by_day.cost IS 'The sum of the runs that have a cost';
COMMENT ON COLUMN analytics.usage_by_day.unpriced IS 'Runs without a cost, whose tokens have no price';

CREATE OR REPLACE VIEW analytics.approvals AS
SELECT approval_id, approval.trace_id, approval.conversation_id, approval.account_id, run.user_id, approval.agent_id,
       run.agent_version, name AS tool, server,
       CASE WHEN call_id LIKE '%#' || approval_id THEN 'question' ELSE 'approval' END AS kind,
       status AS state, decided::json -> 'by' ->> 'kind' AS decided_by,
       approval.requested_at::timestamptz AS requested_at, expires_at::timestamptz AS expires_at,
       (decided::json ->> 'at')::timestamptz AS decided_at
  FROM {approvals} AS approval LEFT JOIN {runs} AS run ON run.trace_id = approval.trace_id
 WHERE approval_id IS NOT NULL AND approvers IS DISTINCT FROM 'client'
   AND NOT EXISTS (SELECT FROM conversation_events AS erased WHERE topic = 'conversation_erased.v1'
                      AND erased.originator_id = approval.conversation_id);
COMMENT ON VIEW analytics.approvals IS 'One row for each decision that a run waits or has waited for';
COMMENT ON COLUMN analytics.approvals.trace_id IS 'The run';
COMMENT ON COLUMN analytics.approvals.tool IS 'The tool that is to be called, or that asks';
COMMENT ON COLUMN analytics.approvals.server IS 'The tool server';
COMMENT ON COLUMN analytics.approvals.kind IS 'approval (may the tool be called?) or question (a tool asks a person for input)';
COMMENT ON COLUMN analytics.approvals.state IS 'pending, approved, denied, expired or cancelled';
COMMENT ON COLUMN analytics.approvals.decided_by IS 'account (a key), operator, or service (it expired, or the run ended)';

CREATE OR REPLACE VIEW analytics.agents AS
SELECT agent.agent_id, agent.account_id, account.name AS account, version.name, version.model,
       agent.current_version AS version,
       agent.disabled_at IS NOT NULL AS disabled, agent.created_at
  FROM agents AS agent
  JOIN agent_versions AS version ON version.agent_id = agent.agent_id AND version.version = agent.current_version
  JOIN accounts AS account ON account.account_id = agent.account_id;
COMMENT ON VIEW analytics.agents IS 'One row for each agent that is not deleted, as it is now: join it for names';
COMMENT ON COLUMN analytics.agents.account IS 'The name of the account';
COMMENT ON COLUMN analytics.agents.version IS 'The newest version';

GRANT USAGE ON SCHEMA analytics TO agentchat_analyst, agentchat_service;
GRANT SELECT ON ALL TABLES IN SCHEMA analytics TO agentchat_analyst, agentchat_service;
