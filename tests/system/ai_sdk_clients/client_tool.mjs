// A tool of the application: onToolCall runs it, and the chat goes on by itself with the output.
import { AGENT, Chat, said, toolsOf, version } from "./chat_of.mjs";

const { lastAssistantMessageIsCompleteWithToolCalls: sendAutomaticallyWhen } = await import(version);
const inputSchema = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const shown = [];
const chat = new Chat(AGENT, `map-of-${version}`, {
  body: { clientTools: [{ name: "show_map", description: "Show a place", inputSchema }] },
  sendAutomaticallyWhen,
  onToolCall: ({ toolCall }) => {
    if (toolCall.toolName !== "show_map") return;
    shown.push(toolCall.input);
    const output = { tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: "It shows Ulm." };
    void (chat.addToolOutput ?? chat.addToolResult)(output);
  },
});
await chat.sendMessage({ text: process.env.QUESTION });
const until = Date.now() + 20_000;
while (!said(chat.messages.at(-1)).includes("Ulm") && !chat.error && Date.now() < until)
  await new Promise((go) => setTimeout(go, 20));
while (chat.status !== "ready" && !chat.error && Date.now() < until) await new Promise((go) => setTimeout(go, 20));
const last = chat.messages.at(-1);
const states = toolsOf(last).map((part) => [part.toolName, part.state]);
console.log(JSON.stringify({ shown: shown.length, text: said(last), states, error: chat.error?.message ?? null }));
