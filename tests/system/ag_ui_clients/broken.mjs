// A stream that ends without a last event, in AG-UI's own client of the version whose package is given: the
// connection is cut, or the response just ends. Then the same run again, as docs/integrate/ag-ui.md says.
import { createServer } from "node:http";

const { HttpAgent } = await import(process.argv[2]);
const { BASE_URL, API_KEY, AGENT } = process.env;

const unhandled = [];
process.on("unhandledRejection", (reason) => void unhandled.push(`${reason}`));

// Ends the first response at its first piece of text; what comes after is passed on.
const passing = async (end) => {
  let broken = false;
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    const headers = { "X-Api-Key": API_KEY, "Content-Type": request.headers["content-type"] };
    const answer = await fetch(`${BASE_URL}${request.url}`, { method: "POST", headers, body });
    response.writeHead(answer.status, { "Content-Type": answer.headers.get("content-type") });
    for await (const piece of answer.body) {
      await new Promise((written) => response.write(piece, written));
      if (!broken && Buffer.from(piece).includes("TEXT_MESSAGE_CONTENT")) {
        broken = true;
        return end(response);
      }
    }
    response.end();
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return server;
};

const run = async (agent, runId) => {
  const seen = { called: [], error: null, trace: null };
  const subscriber = { onEvent: ({ event }) => void (seen.trace = event.value?.traceId ?? seen.trace) };
  for (const name of ["onRunFailed", "onRunFinalized", "onRunFinishedEvent", "onRunErrorEvent"])
    subscriber[name] = () => void seen.called.push(name);
  await agent.runAgent({ runId }, subscriber).catch((error) => void (seen.error = `${error}`));
  return { ...seen, last: agent.messages.at(-1) };
};

const broken = async (name, end) => {
  const server = await passing(end);
  const agent = new HttpAgent({
    url: `http://127.0.0.1:${server.address().port}/ag-ui/v1/agents/${AGENT}`,
    threadId: `${name}-of-${process.argv[2]}`,
  });
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "hi" });
  const runId = crypto.randomUUID();
  const first = await run(agent, runId);
  await new Promise((turn) => setImmediate(turn)); // unhandled rejections come after a turn of the loop
  const left = unhandled.splice(0);
  const uncleaned = await run(agent, runId);
  agent.setMessages(agent.messages.slice(0, agent.messages.findLastIndex(({ role }) => role === "user") + 1));
  const again = await run(agent, runId);
  server.close();
  return { first, unhandled: left, uncleaned, again };
};

const cut = await broken("cut", (response) => response.socket.destroy());
const ended = await broken("ended", (response) => response.end());
console.log(JSON.stringify({ cut, ended }));
