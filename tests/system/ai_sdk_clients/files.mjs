// An image and a PDF as useChat sends them, and a second turn, which sends them again.
import { AGENT, Chat, said, version } from "./chat_of.mjs";

const { IMAGE, PDF } = process.env;
const chat = new Chat(AGENT, `files-of-${version}`);
const files = [
  { type: "file", mediaType: "image/png", url: IMAGE },
  { type: "file", mediaType: "application/pdf", filename: "order.pdf", url: PDF },
];
await chat.sendMessage({ text: "What is this?", files });
const text = chat.error ? "" : said(chat.messages[1]);
if (!chat.error) await chat.sendMessage({ text: "Thanks!" });
console.log(JSON.stringify({ text, turns: chat.messages.length, error: chat.error?.message ?? null }));
