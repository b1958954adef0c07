// The AI SDK with its provider of OpenAI, as it is by default: Responses, with earlier replies named by their ids.
const { generateText, streamText } = await import(`ai-${process.env.AI_VERSION}`);
const { createOpenAI } = await import(`openai-${process.env.PROVIDER_VERSION}`);

const model = createOpenAI()(process.env.AGENT);
const messages = [];
const replies = [];
const conversations = [];
for (const content of JSON.parse(process.env.MESSAGES)) {
  messages.push({ role: "user", content });
  const asked = { model, messages, maxRetries: 0 };
  if (replies.length === 1) {
    const stream = streamText(asked);
    replies.push(await stream.text);
    const response = await stream.response;
    messages.push(...response.messages);
    conversations.push(response.headers["x-conversation-id"]);
  } else {
    const { text, response } = await generateText(asked);
    replies.push(text);
    messages.push(...response.messages);
    conversations.push(response.headers["x-conversation-id"]);
  }
}
console.log(JSON.stringify({ replies, conversations }));
