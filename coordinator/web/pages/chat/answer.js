// The answer of the model as it comes: text, or single tokens with what was likely in their place.
import {$, el, setText} from "../shared/dom.js";
import {percent, seconds} from "../shared/format.js";

const UNSURE = 0.2, UNLIKELY = 0.05;  // probabilities below which a token is marked

/** A token as people can see it: spaces and line ends are shown when there is nothing else. */
function spelled(token) {
  return token.trim() === "" ? token.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅" : token;
}

export class Answer {
  constructor() {
    this.text = "";
    this.tokens = [];  // {element, logprob, top}
    this.chosen = -1;
    this.body = el("div", {className: "text waiting", role: "group", "aria-label": "Answer"});
    this.facts = el("p", {className: "facts"});
    this.element = el("div", {className: "turn assistant"}, this.body, this.facts);
    this.began = performance.now();
    this.first = null;
    this.body.addEventListener("pointerover", (event) => this.#choose(this.tokens.findIndex((token) => token.element === event.target)));
    this.body.addEventListener("pointerleave", () => this.#choose(-1));
    this.body.addEventListener("keydown", (event) => this.#onKey(event));
    this.body.addEventListener("blur", () => this.#choose(-1));
  }

  /** A choice of a chunk. Tokens may be more or fewer than texts: half a character is a token without text yet. */
  add({delta, logprobs}) {
    const text = delta.content ?? "", thought = delta.reasoning_content ?? "", tokens = logprobs?.content ?? [];
    if ((text || thought || tokens.length > 0) && this.first === null) this.first = performance.now();
    this.text += text;
    if (thought) this.body.append(el("span", {className: "thought"}, thought));
    if (tokens.length === 0 || tokens.map(({token}) => token).join("") !== text) {
      if (text) this.body.append(text);
      return;
    }
    if (this.tokens.length === 0) this.body.tabIndex = 0;
    for (const {token, logprob, top_logprobs} of tokens) {
      const probability = Math.exp(logprob);
      const mark = probability < UNLIKELY ? " unlikely" : probability < UNSURE ? " unsure" : "";
      const element = el("span", {className: `token${mark}`}, token);
      this.tokens.push({element, token, logprob, top: top_logprobs});
      this.body.append(element);
    }
  }

  end(usage, reason) {
    this.body.classList.remove("waiting");
    const took = (performance.now() - (this.first ?? this.began)) / 1000, parts = [];
    if (usage) {
      parts.push(`${usage.completion_tokens} tokens`);
      if (usage.completion_tokens > 1) parts.push(`${((usage.completion_tokens - 1) / Math.max(took, 1e-3)).toFixed(1)} a second`);
      const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
      parts.push(`prompt of ${usage.prompt_tokens}${cached > 0 ? `, ${cached} from the cache` : ""}`);
    }
    if (this.first !== null) parts.push(`first after ${seconds((this.first - this.began) / 1000)}`);
    if (reason === "length") parts.push("cut off: as many tokens as were asked for");
    if (reason === "stopped") parts.push("stopped");
    setText(this.facts, parts.join(" · "));
  }

  fail(message) {
    this.body.classList.remove("waiting");
    this.element.append(el("p", {className: "notice bad", role: "alert"}, message));
  }

  #onKey(event) {
    const steps = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity};
    if (event.key === "Escape") return this.#choose(-1);
    if (!(event.key in steps) || this.tokens.length === 0) return;
    event.preventDefault();
    this.#choose(Math.min(this.tokens.length - 1, Math.max(0, this.chosen + steps[event.key])), true);
  }

  #choose(place, aloud = false) {
    this.tokens[this.chosen]?.element.classList.remove("chosen");
    this.chosen = place;
    const tip = $("tip"), chosen = this.tokens[place];
    tip.hidden = !chosen;
    if (!chosen) return;
    chosen.element.classList.add("chosen");
    const top = chosen.top.some(({token}) => token === chosen.token) ? chosen.top : [chosen, ...chosen.top];
    const rows = top.map(({token, logprob}) => el("tr", {className: token === chosen.token ? "taken" : ""}, el("td", {className: "mono"}, spelled(token)), el("td", {}, percent(Math.exp(logprob)))));
    tip.replaceChildren(el("table", {}, el("tbody", {}, ...rows)));
    const box = chosen.element.getBoundingClientRect(), size = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - size.width - 8))}px`;
    tip.style.top = `${box.bottom + size.height + 8 > innerHeight ? box.top - size.height - 6 : box.bottom + 6}px`;
    if (aloud) setText($("said"), top.map(({token, logprob}) => `${spelled(token)} ${percent(Math.exp(logprob))}`).join(", "));
  }
}
