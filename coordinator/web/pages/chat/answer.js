// Shows the model's answer while it arrives: as Markdown, or as single tokens if their probabilities were requested.
import {el, setText} from "../shared/dom.js";
import {copyButton} from "../shared/copy.js";
import {seconds} from "../shared/format.js";
import {Markdown} from "./markdown.js";
import {PlainText} from "./plain_text.js";
import {TokenView} from "./token_view.js";

const REST = 4, LEAST_REST_MS = 30;  // after drawing, the page rests REST times as long, and at least LEAST_REST_MS

/** Returns facts about a finished answer, as text. began and first: the times of the request and of the first word, in milliseconds. */
function factsOf({usage, reason, began, first}) {
  const parts = [];
  if (usage) {
    const took = (performance.now() - (first ?? began)) / 1000;
    parts.push(`${usage.completion_tokens} tokens`);
    if (usage.completion_tokens > 1) parts.push(`${((usage.completion_tokens - 1) / Math.max(took, 1e-3)).toFixed(1)} a second`);
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    parts.push(`prompt of ${usage.prompt_tokens}${cached > 0 ? `, ${cached} from the cache` : ""}`);
  }
  if (first !== null) parts.push(`first after ${seconds((first - began) / 1000)}`);
  if (reason === "length") parts.push("cut off: as many tokens as were asked for");
  if (reason === "stopped") parts.push("stopped");
  return parts.join(" · ");
}

/** The element of a turn {role, content, reasoning, facts, problem}. Arriving text is written into the turn, too. */
export class Answer {
  /** onDrawn() is called whenever more of the answer is shown. */
  constructor(turn, onDrawn) {
    this.turn = turn;
    this.onDrawn = onDrawn;
    this.thought = el("div", {className: "thought raw", hidden: true});
    this.body = el("div", {className: "text", role: "group", "aria-label": "Answer"});
    this.facts = el("p", {className: "facts"});
    this.actions = el("span", {className: "actions"}, copyButton("Copy", "Copy the answer", () => this.turn.content));
    this.problem = el("p", {className: "notice bad", role: "alert", hidden: true});
    this.element = el("div", {className: "turn assistant"}, this.thought, this.body, this.problem, el("div", {className: "under"}, this.facts, this.actions));
    this.markdown = new Markdown(this.body, onDrawn);
    this.thoughts = new PlainText(this.thought);
    this.tokens = null;
    this.began = performance.now();
    this.first = null;
    this.stale = false;  // true: text has arrived that is not drawn yet
    this.timer = null;
    this.#draw(true);
  }

  begin(withTokens) {
    if (withTokens) this.tokens = new TokenView(this.body);
    this.body.classList.add("waiting");
  }

  /** Adds a choice of a streamed chunk to the turn; the page draws soon after. */
  add({delta, logprobs}) {
    const text = delta.content ?? "", thought = delta.reasoning_content ?? "", tokens = logprobs?.content ?? [];
    if ((text || thought || tokens.length > 0) && this.first === null) this.first = performance.now();
    this.turn.content += text;
    this.turn.reasoning = (this.turn.reasoning ?? "") + thought;
    if (this.tokens) this.tokens.add(text, tokens);
    this.stale = true;
    this.timer ??= setTimeout(() => this.#drawAndRest(), 0);
  }

  end(usage, reason) {
    this.turn.facts = factsOf({usage, reason, began: this.began, first: this.first});
    this.#close();
  }

  fail(message) {
    this.turn.problem = message;
    this.#close();
  }

  #close() {
    clearTimeout(this.timer);
    this.body.classList.remove("waiting");
    this.#draw(true);
    this.onDrawn();
  }

  /** Draws new text, then rests: longer after a slow drawing, so that the page stays responsive with long answers. */
  #drawAndRest() {
    this.timer = null;
    if (!this.stale) return;
    const begin = performance.now();
    this.#draw(false);
    this.onDrawn();
    this.timer = setTimeout(() => this.#drawAndRest(), Math.max(LEAST_REST_MS, REST * (performance.now() - begin)));
  }

  #draw(whole) {
    const {content, reasoning, facts, problem} = this.turn;
    this.stale = false;
    if (!this.tokens) this.markdown.show(content, whole);
    this.thought.hidden = !reasoning;
    this.thoughts.show(reasoning ?? "");
    setText(this.facts, facts ?? "");
    this.problem.hidden = !problem;
    setText(this.problem, problem ?? "");
  }
}
