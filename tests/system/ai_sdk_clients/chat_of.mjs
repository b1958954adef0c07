// The AI SDK's own chat, which useChat is made of, of the version whose package is given, at our door.
export const version = process.argv[2];
const { AbstractChat, DefaultChatTransport } = await import(version);
export const { BASE_URL, API_KEY, AGENT } = process.env;

export class Chat extends AbstractChat {
  constructor(agent, id, options = {}) {
    const state = {
      status: "ready",
      error: undefined,
      messages: options.messages ?? [],
      pushMessage: (message) => void state.messages.push(structuredClone(message)),
      popMessage: () => void state.messages.pop(),
      replaceMessage: (index, message) => void (state.messages[index] = structuredClone(message)),
      snapshot: (value) => structuredClone(value),
    };
    const transport = new DefaultChatTransport({
      api: `${BASE_URL}/ai-sdk/v1/agents/${agent}/chat`,
      headers: { Authorization: `Bearer ${options.key ?? API_KEY}` },
      body: options.body,
    });
    super({ id, state, transport, sendAutomaticallyWhen: options.sendAutomaticallyWhen, onToolCall: options.onToolCall });
  }
}

export const said = (message) =>
  message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");

export const toolsOf = (message) => message.parts.filter((part) => part.type === "dynamic-tool");
