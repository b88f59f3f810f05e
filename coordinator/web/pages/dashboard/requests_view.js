// The table of requests: running requests, waiting requests with the reason, buttons to abort and to move, and a dialog
// with all decisions about one request.
import {$, el, keepList, setText} from "../shared/dom.js";
import {count, counted, seconds} from "../shared/format.js";

const STATE_CLASS = {generating: "good", prompt: "good", waiting: "", preempted: "warn", swapped_out: "warn"};
export const LISTED = 100;

export function stateName(state) {
  return state.replace("_", " ");
}

export class RequestsView {
  /** act(verb, request, element) is called when a row's button is pressed. */
  constructor(session, act) {
    this.session = session;
    this.act = act;
    this.replicas = 1;
    $("details-close").addEventListener("click", () => $("details").close());
  }

  /** Returns the query of /admin/requests for the chosen filters. */
  query() {
    const query = new URLSearchParams({limit: LISTED});
    if ($("filter-state").value) query.set("state", $("filter-state").value);
    if ($("filter-client").value.trim()) query.set("client", $("filter-client").value.trim());
    return query;
  }

  show(page) {
    const rest = page.not_listed > 0 ? `; ${count(page.not_listed)} more are not listed` : "";
    setText($("requests-summary"), `${count(page.running)} running, ${count(page.waiting)} waiting${rest}`);
    $("no-requests").hidden = page.requests.length > 0;
    keepList($("requests"), page.requests, (request) => `${request.replica}/${request.request}`,
             (request) => this.#row(request), (row, request) => this.#fill(row, request));
  }

  #row(request) {
    const cell = (className, ...children) => el("td", {className}, ...children);
    const open = el("button", {className: "link", onclick: () => this.open(request.id)}, request.id);
    const meter = el("span", {className: "meter", "aria-hidden": "true"}, el("i"));
    const buttons = el("span", {className: "move"}, el("button", {
      className: "small danger",
      "aria-label": `Abort ${request.id}`,
      onclick: () => this.act("abort", request.id),
    }, "Abort"));
    if (this.replicas > 1) buttons.append(this.#moveButton(request));
    return el("tr", {}, cell("", open), cell("client"), cell("state", el("span", {className: "pill"})),
              cell("tokens", meter, el("span")), cell("number cached"), cell("number blocks"), cell("number age"), cell("why"), cell("", buttons));
  }

  #moveButton(request) {
    return el("button", {
      className: "small",
      "aria-label": `Move ${request.id} to another replica`,
      onclick: () => this.act("migrate", request.id, (request.replica + 1) % this.replicas),
    }, "Move");
  }

  #fill(row, request) {
    const at = (name) => row.querySelector(name);
    setText(at(".client"), request.client ?? "–");
    const pill = at(".pill");
    pill.className = `pill ${STATE_CLASS[request.state]}`;
    setText(pill, stateName(request.state));
    const inPrompt = request.state === "prompt";
    const done = inPrompt ? request.computed_tokens / (request.prompt_tokens * request.choices) : request.generated_tokens / (request.max_tokens * request.choices);
    at(".meter > i").style.width = `${Math.min(100, 100 * done)}%`;
    at(".meter").classList.toggle("warn", inPrompt);
    const choices = request.choices > 1 ? ` × ${request.choices}` : "";
    setText(at(".tokens > span:last-child"), `${count(request.prompt_tokens)} + ${count(request.generated_tokens)} of ${count(request.max_tokens)}${choices}`);
    setText(at(".cached"), count(request.cached_tokens));
    setText(at(".blocks"), request.host_blocks > 0 ? `${count(request.host_blocks)} on host` : count(request.blocks));
    setText(at(".age"), seconds(request.age_seconds));
    setText(at(".why"), request.why_waiting ?? "");
  }

  async open(id) {
    setText($("details-title"), id);
    $("details-body").replaceChildren(el("p", {className: "muted"}, "…"));
    if (!$("details").open) $("details").showModal();
    try {
      const story = await this.session.get(`/admin/requests/${encodeURIComponent(id)}`);
      $("details-body").replaceChildren(...this.#story(story));
    } catch (error) {
      $("details-body").replaceChildren(el("p", {}, error.message));
    }
  }

  #story(story) {
    const parts = [];
    if (story.ended) parts.push(el("p", {className: "muted"}, "It has ended; this is what is still known of it."));
    for (const request of story.requests) {
      const pairs = [["State", stateName(request.state)], ["Waits because", request.why_waiting ?? "it does not wait"], ["Client", request.client ?? "no key"],
                     ["Replica", request.replica], ["Came", `${seconds(request.age_seconds)} ago, waited ${seconds(request.waited_seconds)}`],
                     ["Prompt", `${count(request.prompt_tokens)} tokens, ${count(request.cached_tokens)} from the cache`],
                     ["Blocks", `${count(request.blocks)} on the device, ${count(request.host_blocks)} on the host`], ["Preempted", counted(request.preemptions, "time")]];
      for (const choice of request.choices) {
        const blocks = choice.blocks.map(([first, n]) => (first === 0 ? `${n} left behind` : n === 1 ? `${first}` : `${first}–${first + n - 1}`));
        const shown = blocks.length > 12 ? [...blocks.slice(0, 12), `… ${blocks.length - 12} more runs`] : blocks;
        pairs.push([`Choice ${choice.choice}`, `${count(choice.generated_tokens)} of ${count(request.max_tokens)} tokens${choice.finish_reason ? `, ended: ${choice.finish_reason}` : ""}; blocks ${shown.join(", ") || "none"}`]);
      }
      parts.push(el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))])));
    }
    if (story.events.length > 0) {
      parts.push(el("h3", {}, "What happened to it"), el("ul", {className: "lines"}, ...story.events.map((event) => el("li", {},
        el("time", {}, new Date(event.time * 1000).toLocaleTimeString([], {hour12: false})), el("span", {className: "text"}, event.text)))));
    }
    return parts;
  }
}
