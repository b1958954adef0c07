// A tool call that needs approval, with AG-UI's own client of the version whose package is given.
const { HttpAgent } = await import(process.argv[2]);
const { BASE_URL, API_KEY, AGENT, OPERATORS_AGENT, QUESTION } = process.env;

const agentOf = (agent, name) =>
  new HttpAgent({
    url: `${BASE_URL}/ag-ui/v1/agents/${agent}`,
    headers: { "X-Api-Key": API_KEY },
    threadId: `${name}-of-${process.argv[2]}`,
  });

async function run(agent, { text, resume } = {}) {
  const seen = { types: [], ids: null, outcome: null, error: null };
  if (text) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  const subscriber = {
    onEvent: ({ event }) => {
      seen.types.push(event.type);
      if (event.type === "CUSTOM" && event.name === "run") seen.ids = event.value;
    },
    onRunFinishedEvent: ({ event }) => void (seen.outcome = event.outcome ?? { type: "success" }),
    onRunErrorEvent: ({ event }) => void (seen.error = event.code),
  };
  try {
    await agent.runAgent(resume ? { resume } : {}, subscriber);
  } catch (error) {
    seen.error ??= `${error.message}`;
  }
  return seen;
}

const resolved = ({ id }, payload) => [{ interruptId: id, status: "resolved", payload }];
const waitingFor = async (agent) => {
  const asked = await run(agent, { text: QUESTION });
  return { asked, interrupt: asked.outcome.interrupts[0] };
};

const agent = agentOf(AGENT, "edited");
const { asked, interrupt } = await waitingFor(agent);
const wrong = await run(agent, { resume: resolved(interrupt, { approved: true, editedArgs: { order_id: 7 } }) });
const resume = resolved(interrupt, { approved: true, editedArgs: { order_id: "ORD-1002" } });
const edited = await run(agent, { resume });
const messages = agent.messages.map(({ role, content, toolCalls }) => ({ role, content, calls: toolCalls?.length ?? 0 }));
const next = await run(agent, { text: "Thanks!" });

const refusing = agentOf(AGENT, "denied");
const first = await waitingFor(refusing);
const denied = await run(refusing, { resume: resolved(first.interrupt, { approved: false, reason: "It is a secret." }) });

const leaving = agentOf(AGENT, "cancelled");
const second = await waitingFor(leaving);
const cancelled = await run(leaving, { resume: [{ interruptId: second.interrupt.id, status: "cancelled" }] });

const operators = agentOf(OPERATORS_AGENT, "forbidden");
const third = await waitingFor(operators);
const forbidden = await run(operators, { resume: resolved(third.interrupt, { approved: true }) });

console.log(JSON.stringify({ asked, wrong, edited, messages, next, denied, cancelled, forbidden }));
