// The conversations that this browser keeps in its localStorage. Each conversation has an entry of its own, so that two
// tabs do not overwrite each other's conversations. The oldest conversations are deleted when there are too many or
// they are too long. API keys are never stored here.

const PREFIX = "quire.conversation.", SETTINGS = "quire.settings";
export const MOST_CONVERSATIONS = 100, MOST_CHARACTERS = 3000000;
const TITLE_CHARACTERS = 60;

/** Makes a conversation {id, title, changed, turns}; a turn is {role, content} with files, reasoning, facts or a problem. */
export function newConversation() {
  const id = Array.from(crypto.getRandomValues(new Uint32Array(3)), (word) => word.toString(36)).join("");
  return {id, title: "", changed: Date.now(), turns: []};
}

function isTurn(turn) {
  return (turn?.role === "user" || turn?.role === "assistant") && typeof turn.content === "string"
    && (turn.files ?? []).every((file) => typeof file?.name === "string" && typeof file.text === "string");
}

function titleOf({content, files}) {
  return content.trim().replace(/\s+/g, " ").slice(0, TITLE_CHARACTERS) || files?.[0]?.name || "Conversation";
}

/** Parses a stored entry; null when the entry is not a conversation, for example one of another version. */
function read(text) {
  try {
    const found = JSON.parse(text);
    return typeof found.id === "string" && typeof found.changed === "number" && found.turns.every(isTurn) ? found : null;
  } catch {
    return null;
  }
}

function entries() {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
  return names.map((name) => ({name, size: localStorage.getItem(name).length, conversation: read(localStorage.getItem(name))}));
}

export class Conversations {
  constructor() {
    this.deleted = new Set();
  }

  /** Returns all conversations, the newest first. */
  list() {
    return entries().map(({conversation}) => conversation).filter(Boolean).sort((a, b) => b.changed - a.changed);
  }

  find(id) {
    return read(localStorage.getItem(PREFIX + id));
  }

  /** Keeps a conversation; older conversations are deleted if there is no room for all. Returns false when even this one alone has no room. */
  keep(conversation) {
    if (this.deleted.has(conversation.id)) return true;
    if (conversation.turns.length === 0) {
      localStorage.removeItem(PREFIX + conversation.id);
      return true;
    }
    conversation.changed = Date.now();
    conversation.title = titleOf(conversation.turns[0]);
    const text = JSON.stringify(conversation);
    if (text.length > MOST_CHARACTERS) return false;
    this.#makeRoom(conversation.id, text.length);
    for (;;) {
      try {
        localStorage.setItem(PREFIX + conversation.id, text);
        return true;
      } catch {  // the browser's own limit is reached
        if (!this.#dropOldest(conversation.id)) return false;
      }
    }
  }

  /** Deletes a conversation. A request that still runs for the conversation does not restore it. */
  remove(id) {
    this.deleted.add(id);
    localStorage.removeItem(PREFIX + id);
  }

  removeAll() {
    for (const {name, conversation} of entries()) {
      if (conversation) this.deleted.add(conversation.id);
      localStorage.removeItem(name);
    }
    localStorage.removeItem(SETTINGS);
  }

  #makeRoom(id, size) {
    for (;;) {
      const others = entries().filter(({name}) => name !== PREFIX + id);
      const all = others.reduce((sum, other) => sum + other.size, size);
      if (others.length < MOST_CONVERSATIONS && all <= MOST_CHARACTERS) return;
      if (!this.#dropOldest(id)) return;
    }
  }

  #dropOldest(kept) {
    const others = entries().filter(({name}) => name !== PREFIX + kept);
    if (others.length === 0) return false;
    const oldest = others.reduce((a, b) => ((a.conversation?.changed ?? 0) <= (b.conversation?.changed ?? 0) ? a : b));
    localStorage.removeItem(oldest.name);
    return true;
  }

  get settings() {
    try {
      return JSON.parse(localStorage.getItem(SETTINGS)) ?? {};
    } catch {
      return {};
    }
  }

  set settings(values) {
    try {
      localStorage.setItem(SETTINGS, JSON.stringify(values));
    } catch { /* no room: they last as long as the page */ }
  }
}
