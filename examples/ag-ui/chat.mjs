// A thread of AG-UI with the agent, two messages long: node chat.mjs [MESSAGE]
// CopilotKit takes the same HttpAgent in its runtime, which keeps the key.
import { HttpAgent } from "@ag-ui/client";

const { BASE_URL, API_KEY, AGENT_ID } = process.env;
const agent = new HttpAgent({
  url: `${BASE_URL}/ag-ui/v1/agents/${AGENT_ID}`,
  headers: { "X-Api-Key": API_KEY },
  threadId: crypto.randomUUID(),
});

async function send(content) {
  console.log(`> ${content}`);
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  await agent.runAgent(
    {},
    {
      onTextMessageContentEvent: ({ event }) => void process.stdout.write(event.delta),
      onTextMessageEndEvent: () => void process.stdout.write("\n"),
      onToolCallEndEvent: ({ toolCallName, toolCallArgs }) => {
        console.log(`- ${toolCallName}(${JSON.stringify(toolCallArgs)})`);
      },
      onToolCallResultEvent: ({ event }) => console.log(`  gave ${event.content.length} characters`),
      onRunErrorEvent: ({ event }) => {
        throw new Error(`${event.code}: ${event.message}`);
      },
    },
  );
}

await send(process.argv.slice(2).join(" ") || "Where is order ORD-1006?");
await send("Thanks!");
console.log(`(${agent.messages.length} messages in the thread)`);
