// A tool call that needs approval: approved, and the chat goes on; denied; decided twice, at the operator's.
import { AGENT, API_KEY, BASE_URL, Chat, said, toolsOf, version } from "./chat_of.mjs";

const { lastAssistantMessageIsCompleteWithApprovalResponses: sendAutomaticallyWhen } = await import(version);
const { OPERATORS_AGENT, QUESTION } = process.env;

const asked = async (agent, name) => {
  const chat = new Chat(agent, `${name}-of-${version}`, { sendAutomaticallyWhen });
  await chat.sendMessage({ text: QUESTION });
  return chat;
};

const answered = async (chat, answer) => {
  const [tool] = toolsOf(chat.messages.at(-1));
  await chat.addToolApprovalResponse({ id: tool.approval.id, ...answer });
  while (chat.status === "ready" && toolsOf(chat.messages.at(-1))[0].state === "approval-responded")
    await new Promise((go) => setTimeout(go, 5));
  while (chat.status === "submitted" || chat.status === "streaming") await new Promise((go) => setTimeout(go, 5));
  const last = chat.messages.at(-1);
  return {
    status: chat.status,
    error: chat.error?.message ?? null,
    roles: chat.messages.map((message) => message.role),
    id: last.id,
    tools: toolsOf(last),
    text: said(last),
    conversation: last.metadata?.conversationId,
    steps: last.parts.filter((part) => part.type === "step-start").length,
  };
};

const chat = await asked(AGENT, "approved");
const waiting = { status: chat.status, tools: toolsOf(chat.messages.at(-1)), id: chat.messages.at(-1).id };
const before = structuredClone(chat.messages);
const approved = await answered(chat, { approved: true });
await chat.sendMessage({ text: "Thanks!" });
const next = chat.messages.at(-1).metadata.conversationId;

const again = await answered(new Chat(AGENT, `approved-of-${version}`, { messages: before, sendAutomaticallyWhen }), {
  approved: true,
});
const denied = await answered(await asked(AGENT, "denied"), { approved: false, reason: "It is a secret." });

const otherwise = await asked(AGENT, "otherwise");
const [tool] = toolsOf(otherwise.messages.at(-1));
await fetch(`${BASE_URL}/v1/approvals/${tool.approval.id}/decision`, {
  method: "POST",
  headers: { "X-Api-Key": API_KEY, "Content-Type": "application/json" },
  body: JSON.stringify({ decision: "denied" }),
});
const decided = await answered(otherwise, { approved: true });
const forbidden = await answered(await asked(OPERATORS_AGENT, "forbidden"), { approved: true });

console.log(JSON.stringify({ waiting, approved, next, again, denied, decided, forbidden }));
