// Shows an answer as single tokens. The pointer or the arrow keys show a token's alternatives.
import {$, el, setText} from "../shared/dom.js";
import {percent} from "../shared/format.js";

const PART = 500, LONGEST_PART = 4000;  // tokens: from PART on a part ends at a line end, at LONGEST_PART anywhere
const UNSURE = 0.2, UNLIKELY = 0.05;  // probabilities below which a token is marked

/** Returns the visible text of a token: spaces and line ends are made visible when the token has no other characters. */
function spelled(token) {
  return token.trim() === "" ? token.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅" : token;
}

export class TokenView {
  constructor(body) {
    this.body = body;
    this.tokens = [];  // {element, token, logprob, top}
    this.part = null;  // the element with the last tokens
    this.chosen = -1;
    body.classList.add("raw");
    body.addEventListener("pointerover", (event) => this.#choose(this.tokens.findIndex((token) => token.element === event.target)));
    body.addEventListener("pointerleave", () => this.#choose(-1));
    body.addEventListener("keydown", (event) => this.#onKey(event));
    body.addEventListener("blur", () => this.#choose(-1));
  }

  /** Adds a chunk's text and tokens. If the tokens do not spell the text (half a character has no text yet), adds the text alone. */
  add(text, tokens) {
    if (tokens.length === 0 || tokens.map(({token}) => token).join("") !== text) {
      if (text) this.#place(text);
      return;
    }
    if (this.tokens.length === 0) this.body.tabIndex = 0;
    for (const {token, logprob, top_logprobs} of tokens) {
      const probability = Math.exp(logprob);
      const mark = probability < UNLIKELY ? " unlikely" : probability < UNSURE ? " unsure" : "";
      const element = el("span", {className: `token${mark}`}, token);
      this.tokens.push({element, token, logprob, top: top_logprobs});
      this.#place(element);
    }
  }

  #place(piece) {
    const {childNodes} = this.part ?? {childNodes: []};
    const full = childNodes.length >= LONGEST_PART || (childNodes.length >= PART && childNodes[childNodes.length - 1].textContent.endsWith("\n"));
    if (this.part === null || full) {
      this.part = el("span", {className: "part"});
      this.body.append(this.part);
    }
    this.part.append(piece);
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
