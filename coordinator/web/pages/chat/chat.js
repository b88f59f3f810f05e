// A conversation with the model through /v1/chat/completions, streamed. An answer belongs only to the conversation in
// which it was requested, whichever conversation is shown when the answer ends.
import {$, el, keepList, setText} from "../shared/dom.js";
import {Refusal} from "../shared/session.js";
import {Answer} from "./answer.js";
import {Conversations, newConversation} from "./conversations.js";
import {Attachments, contentOf} from "./files.js";
import {KeptList} from "./kept_list.js";
import {Settings} from "./settings.js";
import {UserTurn} from "./user_turn.js";

const OPEN = "quire.open-conversation";  // key in the tab's sessionStorage: the conversation that a reload shows again
const KEEP_EVERY_MS = 1000;
const PANELS = ["kept", "settings"];
const NEAR = 40;  // pixels above its end at which a page still counts as being at its end

/** Removes answers that a reload interrupted before their first word. */
function restored(conversation) {
  if (!conversation) return newConversation();
  conversation.turns = conversation.turns.filter(({role, content, reasoning}) => role === "user" || content || reasoning);
  return conversation;
}

export class Chat {
  /** refused(message) is called when the server no longer accepts the key. */
  constructor(session, refused) {
    this.session = session;
    this.refused = refused;
    this.conversations = new Conversations();
    this.settings = new Settings(this.conversations);
    this.attachments = new Attachments($("files"), (message) => this.#complain(message));
    this.kept = new KeptList(this.conversations, {
      open: (conversation) => this.open(restored(conversation)),
      shown: () => this.conversation,
      remove: (id) => this.#remove(id),
    });
    this.views = new WeakMap();  // turn: {element}
    this.keys = new WeakMap();   // turn: the turn's key among the elements
    this.made = 0;
    this.run = null;  // {conversation, controller} while an answer arrives
    this.atEnd = true;
    this.#listen();
    this.open(restored(this.conversations.find(sessionStorage.getItem(OPEN))));
  }

  #listen() {
    $("composer").addEventListener("submit", (event) => { event.preventDefault(); this.#send(); });
    $("message").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    $("message").addEventListener("input", () => this.#fitMessage());
    $("stop").addEventListener("click", () => this.stop());
    $("new-chat").addEventListener("click", () => this.open(newConversation()));
    $("attach").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", async () => {
      await this.attachments.add($("file").files);
      $("file").value = "";  // lets the user choose the same file again
    });
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => { event.preventDefault(); this.attachments.add(event.dataTransfer.files); });
    addEventListener("scroll", () => { this.atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - NEAR; });
    addEventListener("pagehide", () => { if (this.run) this.conversations.keep(this.run.conversation); });
    const head = document.querySelector("header");
    new ResizeObserver(() => document.documentElement.style.setProperty("--head", `${head.offsetHeight}px`)).observe(head);
    for (const panel of PANELS) $(`${panel}-button`).addEventListener("click", () => this.#toggle(panel));
  }

  #toggle(panel) {
    const open = $(panel).hidden;
    if (open) this.#closeCovering();
    this.#set(panel, open);
    this.kept.show();
  }

  #set(panel, open) {
    $(panel).hidden = !open;
    $(`${panel}-button`).setAttribute("aria-expanded", String(open));
  }

  /** Closes panels that lie over the conversation, as they do on narrow screens (chat.css). */
  #closeCovering() {
    for (const panel of PANELS) if (getComputedStyle($(panel)).position === "fixed") this.#set(panel, false);
  }

  stop() {
    this.run?.controller.abort();
  }

  /** Shows a conversation. An answer that was still arriving stops, and stays in its own conversation. */
  open(conversation) {
    this.stop();
    this.conversation = conversation;
    sessionStorage.setItem(OPEN, conversation.id);
    this.#complain("");
    setText($("status"), "");
    this.atEnd = true;
    this.#closeCovering();
    this.#show();
    $("message").focus();
  }

  /** Deletes all conversations that this browser keeps. */
  forget() {
    this.stop();
    this.conversations.removeAll();
    this.open(newConversation());
    sessionStorage.removeItem(OPEN);
    $("message").value = "";
    this.attachments.show([]);
    this.#fitMessage();
  }

  #remove(id) {
    this.conversations.remove(id);
    if (this.conversation.id === id) this.open(newConversation());
  }

  #complain(message) {
    $("complaint").hidden = !message;
    setText($("complaint"), message);
  }

  #fitMessage() {
    $("message").style.height = "auto";
    $("message").style.height = `${$("message").scrollHeight + 2}px`;
  }

  #show() {
    const {turns} = this.conversation;
    $("greeting").hidden = turns.length > 0;
    $("talk").classList.toggle("busy", this.run?.conversation === this.conversation);
    keepList($("turns"), turns, (turn) => this.#keyOf(turn), (turn) => this.#viewOf(turn).element, (element, turn) => this.#place(turn));
    this.kept.show();
    this.#toEnd();
  }

  #keyOf(turn) {
    if (!this.keys.has(turn)) this.keys.set(turn, ++this.made);
    return this.keys.get(turn);
  }

  #viewOf(turn) {
    if (!this.views.has(turn)) this.views.set(turn, turn.role === "user" ? new UserTurn(turn, (text) => this.#sendInstead(turn, text)) : this.#answerOf(turn));
    return this.views.get(turn);
  }

  #answerOf(turn) {
    return new Answer(turn, () => this.#toEnd());
  }

  /** Places the turn's buttons: the last turn has one that requests an answer anew. */
  #place(turn) {
    const {actions} = this.#viewOf(turn), last = turn === this.conversation.turns.at(-1);
    let again = actions.querySelector(".again");
    if (!again && last) {
      again = el("button", {className: "quiet small change again", type: "button", onclick: () => this.#answerAgain(turn)}, turn.role === "user" ? "Answer" : "Regenerate");
      actions.append(again);
    }
    if (again) again.hidden = !last;
  }

  #toEnd() {
    if (this.atEnd) scrollTo(0, document.documentElement.scrollHeight);
  }

  async #send() {
    const content = $("message").value.trim(), {files} = this.attachments;
    if ((!content && files.length === 0) || this.run || !this.settings.check()) return;
    const {conversation} = this;
    const typed = $("message").value;
    $("message").value = "";
    this.attachments.show([]);
    this.#fitMessage();
    this.atEnd = true;
    const answered = await this.#answer([...conversation.turns, {role: "user", content, ...(files.length > 0 && {files})}]);
    if (answered || this.conversation !== conversation) return;
    // Puts the message's text back into the input, before text that was typed in the meantime.
    $("message").value = [typed, $("message").value].filter(Boolean).join("\n");
    this.attachments.show([...files, ...this.attachments.files]);
    this.#fitMessage();
  }

  async #sendInstead(turn, content) {
    if (this.run || !this.settings.check()) return;
    const {turns} = this.conversation;
    await this.#answer([...turns.slice(0, turns.indexOf(turn)), {...turn, content}]);
  }

  async #answerAgain(turn) {
    if (this.run || !this.settings.check()) return;
    const {turns} = this.conversation, place = turns.indexOf(turn);
    await this.#answer(turns.slice(0, turn.role === "user" ? place + 1 : place));
  }

  /** Requests an answer to these turns. Returns false, and leaves the conversation unchanged, if nothing arrives. */
  async #answer(turns) {
    const {conversation} = this, before = conversation.turns;
    const turn = {role: "assistant", content: ""}, answer = this.#answerOf(turn);
    const run = {conversation, controller: new AbortController()};
    this.run = run;
    this.views.set(turn, answer);
    conversation.turns = [...turns, turn];
    answer.begin(this.settings.logprobs);
    this.#complain("");
    this.#busy(true);
    this.#keep(conversation);
    this.#show();
    const keeping = setInterval(() => this.#keep(conversation), KEEP_EVERY_MS);
    const problem = await this.#receive(run, answer, turns);
    clearInterval(keeping);
    const shown = this.conversation === conversation, came = Boolean(turn.content || turn.reasoning) || problem === null;
    // If the user leaves a conversation before the answer begins, the question stays in that conversation.
    if (!came) conversation.turns = shown ? before : turns;
    this.#keep(conversation);
    if (this.run === run) {
      this.run = null;
      this.#busy(false);
    }
    if (shown) {
      if (run.controller.signal.aborted) setText($("status"), "Stopped.");
      if (!came) this.#complain(problem);
      this.#show();
    }
    return came;
  }

  #keep(conversation) {
    const kept = this.conversations.keep(conversation);
    if (!kept) this.#complain("This browser has no room to keep the conversation: it lasts as long as this page. Save it as a file.");
    this.kept.show();
  }

  #busy(busy) {
    $("send").hidden = busy;
    $("stop").hidden = !busy;
    setText($("status"), busy ? "The model is answering." : "");
    if (!busy && document.activeElement === document.body) $("message").focus();
  }

  /** Receives an answer. Returns null when it is complete, otherwise the reason why it is not. */
  async #receive({controller}, answer, turns) {
    let usage = null, reason = null;
    try {
      const messages = turns.map((turn) => ({role: turn.role, content: turn.role === "user" ? contentOf(turn) : turn.content}));
      for await (const {data} of this.session.events("/v1/chat/completions", {body: this.settings.body(messages), signal: controller.signal})) {
        if (controller.signal.aborted) break;
        if (data === "[DONE]") {
          answer.end(usage, reason);
          return null;
        }
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Refusal(chunk.error.code ?? 500, chunk.error.message);
        usage = chunk.usage ?? usage;
        for (const choice of chunk.choices) {
          answer.add(choice);
          reason = choice.finish_reason ?? reason;
        }
      }
      if (!controller.signal.aborted) throw new Refusal(0, "The server went away before the answer ended.");
    } catch (error) {
      if (!controller.signal.aborted) {
        answer.fail(error.message);
        if (error.status === 401) this.refused(error.message);
        return error.message;
      }
    }
    answer.end(usage, "stopped");
    return "Stopped before the answer began.";
  }
}
