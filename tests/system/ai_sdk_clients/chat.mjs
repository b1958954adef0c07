// The AI SDK's own chat (what useChat is made of), of the version whose package is given, against our door: two
// turns, a regenerated reply, a reply that is taken up again while it is written, and what it makes of errors.
import { AGENT, Chat, said, toolsOf, version } from "./chat_of.mjs";

const { lastAssistantMessageIsCompleteWithToolCalls: sendAutomaticallyWhen } = await import(version);
const { SLOW_AGENT, FAILING_AGENT, THINKING_AGENT, QUESTION } = process.env;

const chat = new Chat(AGENT, `chat-of-${version}`, { sendAutomaticallyWhen });
await chat.sendMessage({ text: QUESTION });
await chat.sendMessage({ text: "Thanks!" });
const turns = chat.messages.map((message) => ({ id: message.id, metadata: message.metadata, text: said(message) }));
const tools = toolsOf(chat.messages[1]);
const { error: chatError, status: chatStatus } = chat;
await chat.regenerate();
const regenerated = chat.messages.at(-1).metadata.conversationId;

const slow = new Chat(SLOW_AGENT, `slow-chat-of-${version}`);
const asked = slow.sendMessage({ text: "one two three four five six" });
while (slow.messages.length < 2 || said(slow.messages[1]).length === 0) await new Promise((go) => setTimeout(go, 5));
const again = new Chat(SLOW_AGENT, `slow-chat-of-${version}`, { messages: [slow.messages[0]] });
await again.resumeStream();
await asked;
const idle = new Chat(SLOW_AGENT, `slow-chat-of-${version}`, { messages: [...slow.messages] });
await idle.resumeStream();

const failing = new Chat(FAILING_AGENT, `failing-chat-of-${version}`);
await failing.sendMessage({ text: "hi" });
const thinking = new Chat(THINKING_AGENT, `thinking-chat-of-${version}`);
await thinking.sendMessage({ text: "Hello" });
const refused = new Chat(AGENT, `refused-chat-of-${version}`, { key: "sk-ac-wrong" });
await refused.sendMessage({ text: "hi" });

console.log(
  JSON.stringify({
    turns,
    tools,
    status: chatStatus,
    error: chatError?.message ?? null,
    regenerated,
    slow: said(slow.messages[1]),
    again: said(again.messages[1]),
    idle: idle.messages.length,
    failing: { status: failing.status, message: failing.error.message },
    thinking: thinking.messages[1].parts.filter((part) => part.type === "reasoning").map(({ text, state }) => ({ text, state })),
    refused: { status: refused.status, message: refused.error.message },
  }),
);
