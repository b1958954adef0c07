// Show a reply while it is written, and the tools as they run: node stream.ts [MESSAGE]
import { stream } from "./agentchat.ts";

const message =
  process.argv.slice(2).join(" ") || "Where is order ORD-1006, and what else would suit customer CUST-001?";

for await (const event of stream(message)) {
  switch (event.type) {
    case "delta":
      process.stdout.write(event.content);
      break;
    case "tool_call":
      console.log(`[${event.name} ${JSON.stringify(event.input)}]`);
      break;
    case "done":
      console.log(`\n(${event.message.token_count} tokens, conversation ${event.message.conversation_id})`);
  }
}
