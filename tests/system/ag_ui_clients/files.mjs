// An image and a PDF in AG-UI's content parts (`binary` before 1.0), and a second turn, which sends them again.
const { HttpAgent } = await import(process.argv[2]);
const { BASE_URL, API_KEY, AGENT, IMAGE, PDF } = process.env;

const agent = new HttpAgent({
  url: `${BASE_URL}/ag-ui/v1/agents/${AGENT}`,
  headers: { "X-Api-Key": API_KEY },
  threadId: `files-of-${process.argv[2]}`,
});
const isOld = process.argv[2] === "ag-ui-before";
const part = (type, url, mimeType) => {
  const value = url.split(",")[1];
  return isOld ? { type: "binary", mimeType, data: value } : { type, source: { type: "data", value, mimeType } };
};
const content = [
  { type: "text", text: "What is this?" },
  part("image", IMAGE, "image/png"),
  part("document", PDF, "application/pdf"),
];
agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
await agent.runAgent();
const text = agent.messages.at(-1).content;
agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "Thanks!" });
await agent.runAgent();
console.log(JSON.stringify({ text, turns: agent.messages.length }));
