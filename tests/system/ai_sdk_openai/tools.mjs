// The provider with a tool of the application, and with a tool of the agent that a person has to approve.
const { generateText, jsonSchema, stepCountIs, isStepCount, tool } = await import(`ai-${process.env.AI_VERSION}`);
const { createOpenAI } = await import(`openai-${process.env.PROVIDER_VERSION}`);

const openai = createOpenAI();
const stopWhen = (stepCountIs ?? isStepCount)(5);
const shown = [];
const inputSchema = jsonSchema({ type: "object", properties: { place: { type: "string" } }, required: ["place"] });
const execute = (input) => { shown.push(input.place); return "It shows Ulm."; };
const tools = { show_map: tool({ description: "Show a place", inputSchema, execute }) };
const mapped = await generateText({ model: openai(process.env.AGENT), tools, stopWhen, prompt: process.env.MAP, maxRetries: 0 });

const model = openai(process.env.ASKING);
const messages = [{ role: "user", content: process.env.ORDER }];
const asked = await generateText({ model, messages, maxRetries: 0 });
const requests = asked.content.filter((part) => part.type === "tool-approval-request");
messages.push(...asked.response.messages);
messages.push({
  role: "tool",
  content: requests.map(({ approvalId }) => ({ type: "tool-approval-response", approvalId, approved: true, providerExecuted: true })),
});
const approved = await generateText({ model, messages, maxRetries: 0 });
messages.push(...approved.response.messages, { role: "user", content: "Thank you." });
const thanked = await generateText({ model, messages, maxRetries: 0 });
const results = approved.content.filter((part) => part.type === "tool-result").map((part) => part.toolName);
const conversations = [asked, approved, thanked].map((each) => each.response.headers["x-conversation-id"]);
console.log(JSON.stringify({ shown, mapped: mapped.text, requests: requests.length, results, approved: approved.text, conversations }));
