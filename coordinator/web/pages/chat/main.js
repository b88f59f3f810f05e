// The chat page: a conversation with the model through /v1/chat/completions, streamed.
import {$, el, setText} from "../shared/dom.js";
import {Refusal, Session} from "../shared/session.js";
import {Answer} from "./answer.js";

const TOP_LOGPROBS = 5;

class Chat {
  constructor(session) {
    this.session = session;
    this.messages = [];
    this.running = null;  // an AbortController while an answer comes
    $("composer").addEventListener("submit", (event) => { event.preventDefault(); this.#send(); });
    $("message").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    $("message").addEventListener("input", () => this.#fitMessage());
    $("stop").addEventListener("click", () => this.running?.abort());
    $("new-chat").addEventListener("click", () => this.clear());
    $("settings-button").addEventListener("click", () => {
      const open = $("settings").hidden;
      $("settings").hidden = !open;
      $("settings-button").setAttribute("aria-expanded", String(open));
    });
  }

  show(models) {
    $("app").hidden = false;
    $("sign-out").hidden = !this.session.key;
    $("model").replaceChildren(...models.map(({id}) => el("option", {value: id}, id)));
    $("message").focus();
  }

  clear() {
    this.running?.abort();
    this.messages = [];
    $("talk").replaceChildren($("greeting"));
    $("greeting").hidden = false;
    setText($("status"), "");
    $("message").focus();
  }

  #fitMessage() {
    $("message").style.height = "auto";
    $("message").style.height = `${$("message").scrollHeight + 2}px`;
  }

  #body() {
    const system = $("system").value.trim();
    const body = {
      model: $("model").value,
      messages: [...(system ? [{role: "system", content: system}] : []), ...this.messages],
      max_tokens: Number($("max-tokens").value),
      temperature: Number($("temperature").value),
      top_p: Number($("top-p").value),
      stream: true,
      stream_options: {include_usage: true},
    };
    if (Number($("top-k").value) > 0) body.top_k = Number($("top-k").value);
    if ($("seed").value) body.seed = Number($("seed").value);
    if ($("logprobs").checked) Object.assign(body, {logprobs: true, top_logprobs: TOP_LOGPROBS});
    return body;
  }

  async #send() {
    const text = $("message").value.trim();
    if (!text || this.running) return;
    for (const input of $("settings").querySelectorAll("input")) {
      if (input.checkValidity()) continue;
      $("settings").hidden = false;
      return input.reportValidity();
    }
    $("message").value = "";
    this.#fitMessage();
    $("greeting").hidden = true;
    this.messages.push({role: "user", content: text});
    $("talk").append(el("div", {className: "turn user"}, el("div", {className: "text"}, text)));
    const answer = new Answer();
    $("talk").append(answer.element);
    $("talk").scrollTop = $("talk").scrollHeight;
    await this.#receive(answer);
    // What failed before its first token is no turn of the conversation: the next one would go on from it.
    if (answer.text) this.messages.push({role: "assistant", content: answer.text});
    else this.messages.pop();
  }

  async #receive(answer) {
    this.running = new AbortController();
    $("send").hidden = true;
    $("stop").hidden = false;
    setText($("status"), "The model is answering.");
    let usage = null, reason = null;
    try {
      for await (const {data} of this.session.events("/v1/chat/completions", {body: this.#body(), signal: this.running.signal})) {
        if (data === "[DONE]") break;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Refusal(chunk.error.code ?? 500, chunk.error.message);
        usage = chunk.usage ?? usage;
        const atEnd = $("talk").scrollHeight - $("talk").scrollTop - $("talk").clientHeight < 40;
        for (const choice of chunk.choices) {
          answer.add(choice);
          reason = choice.finish_reason ?? reason;
        }
        if (atEnd) $("talk").scrollTop = $("talk").scrollHeight;
      }
      answer.end(usage, reason);
      setText($("status"), "");
    } catch (error) {
      if (error.name === "AbortError") {
        answer.end(usage, "stopped");
        setText($("status"), "Stopped.");
      } else {
        answer.fail(error.message);
        setText($("status"), "");
        if (error.status === 401) signIn(this.session, error.message);
      }
    }
    this.running = null;
    $("send").hidden = false;
    $("stop").hidden = true;
    $("message").focus();
  }
}

function signIn(session, reason) {
  session.key = "";
  $("app").hidden = true;
  $("sign-in").hidden = false;
  $("sign-in-error").hidden = !reason;
  setText($("sign-in-error"), reason);
  $("key").focus();
}

async function enter(session, chat) {
  try {
    const {data} = await session.get("/v1/models");
    $("sign-in").hidden = true;
    chat.show(data);
  } catch (error) {
    if (error.status === 401) return signIn(session, session.key ? "The key is not known here." : "");
    $("app").hidden = false;
    setText($("status"), error.status === 0 || error.status === 503 ? "The server is not ready; trying again." : error.message);
    setTimeout(() => enter(session, chat), 1500);
  }
}

const session = new Session("quire.api-key");
const chat = new Chat(session);
$("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.key = $("key").value.trim();
  $("key").value = "";
  enter(session, chat);
});
$("sign-out").addEventListener("click", () => { chat.clear(); signIn(session, ""); });
enter(session, chat);
