// A chat of the AI SDK with the agent, two messages long: node chat.mjs [MESSAGE]
// In a browser, useChat takes the same transport; there `api` is a route of your own backend, which adds the key.
import { DefaultChatTransport, readUIMessageStream } from "ai";

const { BASE_URL, API_KEY, AGENT_ID } = process.env;
const transport = new DefaultChatTransport({
  api: `${BASE_URL}/ai-sdk/v1/agents/${AGENT_ID}/chat`,
  headers: { "X-Api-Key": API_KEY },
});
const chatId = crypto.randomUUID();
const messages = [];

async function send(text) {
  console.log(`> ${text}`);
  messages.push({ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] });
  const stream = await transport.sendMessages({ chatId, messages, trigger: "submit-message" });
  let reply;
  const failed = (error) => {
    throw error;
  };
  for await (const message of readUIMessageStream({ stream, onError: failed, terminateOnError: true })) reply = message;
  messages.push(reply);
  for (const part of reply.parts) {
    if (part.type === "text") console.log(part.text);
    if (part.type === "dynamic-tool") console.log(`- ${part.toolName}(${JSON.stringify(part.input)}): ${part.state}`);
  }
  return reply;
}

await send(process.argv.slice(2).join(" ") || "Where is order ORD-1006?");
const { metadata } = await send("Thanks!");
console.log(`(${metadata.usage.totalTokens} tokens, conversation ${metadata.conversationId})`);
