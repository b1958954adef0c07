// A small client for Node on fetch alone: an answer as one JSON, or a stream as typed events (form 2).

export type Message = {
  id: string;
  conversation_id: string;
  role: string;
  content: string;
  token_count: number;
  created_at: string;
};

export type ToolCall = {
  name: string;
  input: Record<string, unknown>;
  output: string;
  id: string;
  is_error: boolean;
};

export type Source = { index: number; title: string; url: string; snippet: string; document?: string };

export type Reply = {
  conversation_id: string;
  message: Message;
  tool_calls?: ToolCall[];
  sources?: Source[];
};

export type ChatEvent =
  | { type: "start"; conversation_id: string }
  | { type: "delta"; content: string }
  | { type: "tool_call"; name: string; input: Record<string, unknown>; id: string }
  | { type: "done"; message: Message; tool_calls?: ToolCall[]; sources?: Source[] }
  | { type: "error"; code: string; message: string };

const RETRIES = 2;

/** One complete reply. */
export async function chat(message: string, conversationId?: string): Promise<Reply> {
  const response = await post("/v1/chat", message, conversationId);
  return await response.json() as Reply;
}

/** The events of one reply. Throws for an `error` event, and where the stream ends without `done`. */
export async function* stream(message: string, conversationId?: string): AsyncGenerator<ChatEvent> {
  const response = await post("/v1/chat/stream", message, conversationId);
  for await (const line of lines(response)) {
    if (!line.startsWith("data: ")) continue;
    const event = JSON.parse(line.slice("data: ".length)) as ChatEvent;
    if (event.type === "error") throw new Error(`${event.code}: ${event.message}`);
    yield event;
    if (event.type === "done") return;
  }
  throw new Error("The stream was cut; continue the thread with its conversation_id.");
}

/** Lines end with \n alone, and a character may be cut between two chunks. */
async function* lines(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of response.body ?? []) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    yield* parts;
  }
}

/** Tries again on 429 and 5xx, with one Idempotency-Key, as long as Retry-After says or with growing waits. */
async function post(path: string, message: string, conversationId?: string): Promise<Response> {
  const headers = {
    "X-Api-Key": setting("API_KEY"),
    "X-Agent-Id": setting("AGENT_ID"),
    "X-Stream-Form": "2",
    "Content-Type": "application/json",
    "Idempotency-Key": crypto.randomUUID(),
  };
  const body = JSON.stringify({ message, conversation_id: conversationId ?? null });
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(setting("BASE_URL") + path, { method: "POST", headers, body });
    if (response.ok) return response;
    const passing = response.status === 429 || response.status >= 500;
    if (!passing || attempt === RETRIES) throw new Error(`${response.status}: ${await response.text()}`);
    const seconds = Number(response.headers.get("retry-after")) + Math.random() * 2 ** attempt;
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
}

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}
