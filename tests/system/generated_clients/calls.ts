// Calls typed by what openapi-typescript has generated. Prints what came of them, in JSON.
import createClient from "openapi-fetch";

import type { components, paths } from "./generated.js";

declare const process: { env: Record<string, string> };

const { BASE_URL, API_KEY, AGENT, QUESTION } = process.env;
const client = createClient<paths>({
  baseUrl: BASE_URL,
  headers: { "X-Api-Key": API_KEY },
  querySerializer: { object: { style: "form", explode: true } },
});
const header = { "X-Agent-Id": AGENT };

function present<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const question: components["schemas"]["ChatBody"] = { message: QUESTION };
const reply = present(await client.POST("/v1/chat", { params: { header }, body: question }));
const conversation_id = reply.conversation_id;
const path = { conversation_id };
const events = present(
  await client.POST("/v1/chat/stream", {
    params: { header },
    body: { message: "Thanks!", conversation_id },
    parseAs: "text",
  }),
);
const key = { ...header, "Idempotency-Key": "not allowed" };
const refused = await client.POST("/v1/chat", { params: { header: key }, body: question });
const titled = present(
  await client.PATCH("/v1/conversations/{conversation_id}", {
    params: { path },
    body: { title: "Generated", metadata: { "made by": "a generator" } },
  }),
);
const fork = present(
  await client.POST("/v1/conversations/{conversation_id}/fork", { params: { path }, body: {} }),
);
const query = { limit: 1, metadata: { "metadata.made by": "a generator" } };
let found = present(await client.GET("/v1/conversations", { params: { query } }));
while (found.data.length === 0) {
  found = present(await client.GET("/v1/conversations", { params: { query } })); // the list is a moment behind
}
const messages = present(
  await client.GET("/v1/conversations/{conversation_id}/messages", { params: { path } }),
);
const headers = { Authorization: `Bearer ${API_KEY}` };
const completion = present(
  await client.POST("/openai/v1/chat/completions", {
    headers,
    body: { model: AGENT, messages: [{ role: "user", content: QUESTION }] },
  }),
);
if (typeof completion === "string") throw new Error("no stream was asked for");
if (!("message" in reply)) throw new Error("no client tools were sent");
const models = present(await client.GET("/openai/v1/models", { headers }));
const endpoints = present(await client.GET("/v1/webhook_endpoints"));
const approvals = present(await client.GET("/v1/approvals", { params: { query: { limit: 1 } } }));
const forked = { conversation_id: fork.conversation_id };
const gone = await client.DELETE("/v1/conversations/{conversation_id}", { params: { path: forked } });
const read = await client.GET("/v1/conversations/{conversation_id}", { params: { path: forked } });

console.log(
  JSON.stringify({
    conversation: conversation_id,
    said: messages.data.map((message) => message.content),
    reply: reply.message.content,
    tools: (reply.tool_calls ?? []).map((call) => call.name),
    "last event": events.trim().split("data: ").at(-1),
    title: titled.title,
    found: found.data.map((row) => row.title),
    completion: completion.choices[0].message.content,
    models: models.data.length,
    endpoints: endpoints.data,
    approvals: approvals.data.length,
    refused: [refused.response.status, refused.error?.code],
    deleted: [gone.response.status, read.response.status, read.error?.code],
  }),
);
