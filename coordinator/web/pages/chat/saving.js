// Saves a conversation as a file: Markdown for readers, JSON for other programs that continue the conversation.
import {el} from "../shared/dom.js";
import {contentOf} from "./files.js";

const NAMES = {user: "You", assistant: "Assistant"};

export function asMarkdown({title, turns}) {
  return [`# ${title}`, ...turns.map((turn) => `## ${NAMES[turn.role]}\n\n${contentOf(turn)}`)].join("\n\n") + "\n";
}

/** Returns the conversation as messages in the API's form. */
export function asJson({title, turns}) {
  return JSON.stringify({title, messages: turns.map((turn) => ({role: turn.role, content: contentOf(turn)}))}, null, 2) + "\n";
}

export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  el("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/** Returns a file name for the conversation that every operating system accepts. */
export function fileNameOf({title}) {
  return title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 40) || "conversation";
}
