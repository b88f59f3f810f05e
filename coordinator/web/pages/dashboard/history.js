// The last minutes of the server's numbers, kept by this page while it is open, and what is drawn of them.
import {$, el, setText} from "../shared/dom.js";
import {count, counted, percent, seconds, short} from "../shared/format.js";
import {Histogram, LineChart, Sparkline} from "./charts.js";
import {histograms, quantile, total} from "./metrics.js";

const CAPACITY = 300;  // samples, one a second

const FIRST_TOKEN = "vllm:time_to_first_token_seconds", INTER_TOKEN = "vllm:inter_token_latency_seconds";
const HITS = "vllm:prefix_cache_hits_total", QUERIES = "vllm:prefix_cache_queries_total";

class Figure {
  constructor(title) {
    this.value = el("div", {className: "value"}, "–");
    this.note = el("div", {className: "note"});
    this.spark = new Sparkline();
    this.element = el("div", {className: "card figure"}, el("h2", {}, title), this.value, this.note, this.spark.element);
  }

  show(value, note, samples, most) {
    setText(this.value, value);
    setText(this.note, note);
    this.spark.show(samples, most);
  }
}

function sum(status, pick) {
  return status.replicas.reduce((all, replica) => all + pick(replica), 0);
}

export class History {
  constructor() {
    this.samples = {running: [], waiting: [], tokens: [], used: [], cached: [], hits: [], first: []};
    this.figures = {running: new Figure("Running"), waiting: new Figure("Waiting"), tokens: new Figure("Tokens per second"),
                    first: new Figure("Time to first token"), used: new Figure("Blocks in use"), hits: new Figure("Cache hits")};
    for (const figure of Object.values(this.figures)) $("figures").append(figure.element);
    this.throughput = new LineChart("Tokens per second", [{name: "generated", color: "var(--accent)"}], {format: short});
    this.pool = new LineChart("Pool and cache", [{name: "in use", color: "var(--accent)"}, {name: "cached", color: "var(--warn)"}], {top: 1, format: percent});
    this.firstToken = new Histogram("Time to first token");
    this.interToken = new Histogram("Between two tokens");
    for (const chart of [this.throughput, this.pool, this.firstToken, this.interToken]) $("charts").append(chart.element);
    this.before = null;
    this.latency = null;
    this.began = performance.now();
  }

  #push(name, value) {
    const series = this.samples[name];
    series.push(value);
    if (series.length > CAPACITY) series.shift();
  }

  onStatus(status) {
    const now = performance.now();
    const generated = sum(status, (r) => r.generated_tokens), preemptions = sum(status, (r) => r.preemptions);
    const blocks = sum(status, (r) => r.blocks.device.total), used = sum(status, (r) => r.blocks.device.used);
    const cached = sum(status, (r) => r.blocks.device.cached);
    const rate = this.before ? Math.max(0, (generated - this.before.generated) / ((now - this.before.now) / 1000)) : 0;
    this.before = {now, generated};
    const running = sum(status, (r) => r.running), waiting = sum(status, (r) => r.waiting);
    this.#push("running", running);
    this.#push("waiting", waiting);
    this.#push("tokens", rate);
    this.#push("used", used / Math.max(1, blocks));
    this.#push("cached", cached / Math.max(1, blocks));
    const s = this.samples;
    this.figures.running.show(count(running), `${count(sum(status, (r) => r.steps))} steps so far`, s.running);
    this.figures.waiting.show(count(waiting), `${counted(preemptions, "preemption")} so far`, s.waiting);
    this.figures.tokens.show(short(rate), `${short(generated)} generated so far`, s.tokens);
    this.figures.used.show(percent(s.used.at(-1)), `${count(used)} of ${count(blocks)}`, s.used, 1);
    const shown = Math.max(60, Math.min(CAPACITY, (now - this.began) / 1000));
    this.throughput.show([s.tokens], shown);
    this.pool.show([s.used, s.cached], shown);
  }

  onMetrics(text) {
    const found = histograms(text, [FIRST_TOKEN, INTER_TOKEN]);
    const first = found[FIRST_TOKEN], inter = found[INTER_TOKEN];
    this.firstToken.show(first, quantile(first, 0.5), quantile(first, 0.95));
    this.interToken.show(inter, quantile(inter, 0.5), quantile(inter, 0.95));
    const hits = total(text, HITS), share = hits / Math.max(1, total(text, QUERIES));
    this.#push("hits", share);
    this.figures.hits.show(percent(share), `${short(hits)} tokens saved`, this.samples.hits, 1);
    this.#push("first", quantile(first, 0.5) ?? 0);
    this.figures.first.show(seconds(quantile(first, 0.5)), first.count === 0 ? "once a request has ended" : `half of ${count(first.count)}; 95 %: ${seconds(quantile(first, 0.95))}`, this.samples.first);
  }
}
