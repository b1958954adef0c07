// The openai SDK of Node against our door: what it makes of a stream, a document, models and an error.
import OpenAI from "openai";

const model = process.env.AGENT;
const client = new OpenAI({ defaultHeaders: { "X-Conversation-Id": "node" } });
const models = [];
for await (const each of client.models.list()) models.push(each.id);

const messages = [{ role: "user", content: process.env.QUESTION }];
let text = "";
let finish = null;
let calls = 0;
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  for (const choice of chunk.choices) {
    text += choice.delta.content ?? "";
    calls += (choice.delta.tool_calls ?? []).length;
    finish = choice.finish_reason ?? finish;
  }
}
messages.push({ role: "assistant", content: text }, { role: "user", content: "Thanks!" });
const { data, response } = await client.chat.completions.create({ model, messages }).withResponse();

const schema = {
  type: "object",
  properties: { answer: { type: "string" }, is_late: { type: "boolean" } },
  required: ["answer", "is_late"],
  additionalProperties: false,
};
const { choices } = await client.chat.completions.create({
  model,
  messages: messages.slice(0, 1),
  response_format: { type: "json_schema", json_schema: { name: "where", strict: true, schema } },
});
const structured = JSON.parse(choices[0].message.content).answer;

const thinker = new OpenAI({ apiKey: process.env.THINKING_KEY });
const { output } = await thinker.responses.create({ model: process.env.THINKING_AGENT, input: "Hello" });
const thought = output.filter(({ type }) => type === "reasoning").map(({ summary }) => summary[0].text);

let refused = null;
try {
  await client.chat.completions.create({ model, messages, n: 2 });
} catch (error) {
  refused = { status: error.status, param: error.param, type: error.type };
}
const conversation = response.headers.get("x-conversation-id");
console.log(JSON.stringify({ models, text, finish, calls, conversation, reply: data.choices[0].message.content, refused, structured, thought }));
