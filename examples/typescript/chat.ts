// Ask the agent and wait for the whole reply: node chat.ts [MESSAGE]
import { chat } from "./agentchat.ts";

const message = process.argv.slice(2).join(" ") || "Where is order ORD-1006?";

const reply = await chat(message);
console.log(reply.message.content);
for (const call of reply.tool_calls ?? []) {
  console.log(`- ${call.name}(${JSON.stringify(call.input)}) gave ${call.output.length} characters`);
}
console.log(`(${reply.message.token_count} tokens, conversation ${reply.conversation_id})`);
