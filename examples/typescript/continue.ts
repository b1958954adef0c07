// Ask twice in one thread: node continue.ts
import { chat } from "./agentchat.ts";

const first = await chat("Hello, my name is Ada.");
// Store the conversation_id with your own user: it is all that a thread needs to go on.
const second = await chat("What is my name?", first.conversation_id);
console.log(second.message.content);
