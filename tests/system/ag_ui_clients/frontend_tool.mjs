// A frontend tool, with AG-UI's own client: it runs the tool, adds the result to the thread, and runs again.
const { HttpAgent } = await import(process.argv[2]);
const { BASE_URL, API_KEY, AGENT, QUESTION } = process.env;

const parameters = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const tools = [{ name: "show_map", description: "Show a place", parameters }];
const agent = new HttpAgent({
  url: `${BASE_URL}/ag-ui/v1/agents/${AGENT}`,
  headers: { "X-Api-Key": API_KEY },
  threadId: `map-of-${process.argv[2]}`,
});
agent.addMessage({ id: crypto.randomUUID(), role: "user", content: QUESTION });
await agent.runAgent({ tools });
const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
const call = calls.find((each) => each.function.name === "show_map");
agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: "It shows Ulm." });
await agent.runAgent({ tools });
const last = agent.messages.at(-1);
console.log(JSON.stringify({ input: call.function.arguments, role: last.role, text: last.content }));
