// AG-UI's own client against our door, of the version whose package is given: two turns, a cancelled run, a run
// that fails, one that is refused.
const { HttpAgent } = await import(process.argv[2]);
const { BASE_URL, API_KEY, AGENT, SLOW_AGENT, FAILING_AGENT, THINKING_AGENT, QUESTION } = process.env;

const agentOf = (agent, threadId, key = API_KEY) =>
  new HttpAgent({ url: `${BASE_URL}/ag-ui/v1/agents/${agent}`, headers: { "X-Api-Key": key }, threadId });

async function run(agent, text, watch = {}) {
  const seen = { types: [], ids: null, outcome: null, error: null };
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  const subscriber = {
    onEvent: ({ event }) => {
      seen.types.push(event.type);
      if (event.type === "CUSTOM" && event.name === "run") seen.ids = event.value;
      watch.onEvent?.(event, seen);
    },
    onRunFinishedEvent: ({ outcome, event }) => void (seen.outcome = outcome ?? event.outcome?.type ?? "success"),
    onRunErrorEvent: ({ event }) => void (seen.error = event.code),
  };
  try {
    await agent.runAgent({}, subscriber);
  } catch (error) {
    seen.error ??= `${error.message}`;
  }
  return seen;
}

const agent = agentOf(AGENT, `thread-of-${process.argv[2]}`);
const first = await run(agent, QUESTION);
const second = await run(agent, "Thanks!");
const messages = agent.messages.map(({ role, content, toolCalls }) => ({ role, content, calls: toolCalls?.length ?? 0 }));

let cancelling;
const cancelled = await run(agentOf(SLOW_AGENT, `slow-${process.argv[2]}`), "hi", {
  onEvent: (event, seen) => {
    if (event.type === "TEXT_MESSAGE_CONTENT")
      cancelling ??= fetch(`${BASE_URL}/v1/chat/${seen.ids.traceId}/cancel`, {
        method: "POST",
        headers: { "X-Api-Key": API_KEY },
      });
  },
});
await cancelling;
const failing = await run(agentOf(FAILING_AGENT, `failing-${process.argv[2]}`), "hi");
const thinker = agentOf(THINKING_AGENT, `thinking-${process.argv[2]}`);
const { types } = await run(thinker, "Hello");
const thinking = {
  types: [...new Set(types.filter((type) => type.startsWith("REASONING")))],
  thought: thinker.messages.filter(({ role }) => role === "reasoning").map(({ content }) => content),
  again: (await run(thinker, "Thanks!")).error,
};
const refused = await run(agentOf(AGENT, `refused-${process.argv[2]}`, "sk-ac-wrong"), "hi");

console.log(JSON.stringify({ first, second, messages, cancelled, failing, thinking, refused }));
