// The table of clients: the requests and blocks of each client, and the client's rate of tokens.
import {$, el, keepList, setText} from "../shared/dom.js";
import {count, short} from "../shared/format.js";

const WINDOW_MS = 10000;  // milliseconds over which rates are computed
const LISTED = 50;

/** Returns the clients' numbers summed over replicas: {name: {running, waiting, blocks, prompt_tokens, generated_tokens}}. */
function clientsOf(status) {
  const sums = new Map();
  for (const {clients} of status.replicas) {
    for (const [name, numbers] of Object.entries(clients)) {
      const sum = sums.get(name) ?? {};
      for (const [field, value] of Object.entries(numbers)) if (typeof value === "number") sum[field] = (sum[field] ?? 0) + value;
      sums.set(name, sum);
    }
  }
  return sums;
}

export class ClientsView {
  constructor() {
    this.readings = [];  // {now, clients} in the last WINDOW_MS, the oldest first
  }

  onStatus(status) {
    const now = performance.now(), clients = clientsOf(status);
    this.readings.push({now, clients});
    while (this.readings.length > 2 && now - this.readings[1].now >= WINDOW_MS) this.readings.shift();
    const before = this.readings[0], seconds = Math.max(0.001, (now - before.now) / 1000);
    const rows = [...clients].map(([name, numbers]) => {
      const old = before.clients.get(name) ?? numbers;
      const rate = (field) => Math.max(0, numbers[field] - old[field]) / seconds;
      return {name, ...numbers, prompts: rate("prompt_tokens"), generated: rate("generated_tokens")};
    });
    rows.sort((a, b) => b.prompts + b.generated - a.prompts - a.generated || b.running - a.running || (a.name < b.name ? -1 : 1));
    setText($("clients-summary"), rows.length > LISTED ? `${count(rows.length - LISTED)} more are not listed` : "");
    $("no-clients").hidden = rows.length > 0;
    keepList($("clients"), rows.slice(0, LISTED), ({name}) => name, () => el("tr", {}, el("td", {}), ...Array.from({length: 6}, () => el("td", {className: "number"}))),
             (row, client) => this.#fill(row, client));
  }

  #fill(row, {name, running, waiting, blocks, prompts, generated, prompt_tokens, generated_tokens}) {
    const texts = [name || "no key", count(running), count(waiting), count(blocks), short(prompts), short(generated), short(prompt_tokens + generated_tokens)];
    texts.forEach((text, column) => setText(row.children[column], text));
  }
}
