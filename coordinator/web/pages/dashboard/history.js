// Shows the key figures, and the charts of the last half hour, whose data the server keeps (/admin/history).
import {$, el, setText} from "../shared/dom.js";
import {bytes, count, counted, percent, seconds, short} from "../shared/format.js";
import {Histogram, LineChart, Sparkline} from "./charts.js";
import {histograms, quantile, total} from "./metrics.js";

const MOST_ROWS = 360;  // number of rows that the server keeps

const FIRST_TOKEN = "vllm:time_to_first_token_seconds", INTER_TOKEN = "vllm:inter_token_latency_seconds";
const HITS = "vllm:prefix_cache_hits_total", QUERIES = "vllm:prefix_cache_queries_total";
const QUANTILES = [{name: "50 %", color: "var(--accent)"}, {name: "95 %", color: "var(--warn)"}, {name: "99 %", color: "var(--bad)"}];

class Figure {
  constructor(title) {
    this.value = el("div", {className: "value"}, "–");
    this.note = el("div", {className: "note"});
    this.spark = new Sparkline();
    this.element = el("div", {className: "card figure"}, el("h2", {}, title), this.value, this.note, this.spark.element);
  }

  show(value, note) {
    setText(this.value, value);
    setText(this.note, note);
  }
}

function sum(status, pick) {
  return status.replicas.reduce((all, replica) => all + pick(replica), 0);
}

/** Returns the share of guessed tokens that were right, with a note: [share, note]; null while no token was guessed.
 * Positions count inside a guess. */
function guesses(status) {
  const tokens = sum(status, (r) => r.speculation.tokens), drafts = sum(status, (r) => r.speculation.drafts);
  if (tokens === 0) return null;
  const methods = Object.keys(status.replicas[0].speculation.methods).flatMap((method) => {
    const of = (what) => sum(status, (r) => r.speculation.methods[method][what]);
    return of("tokens") > 0 ? [`${method} ${percent(of("accepted") / of("tokens"))}`] : [];
  });
  const positions = status.replicas[0].speculation.accepted_by_position.map(
      (_, place) => percent(sum(status, (r) => r.speculation.accepted_by_position[place]) / drafts));
  return [percent(sum(status, (r) => r.speculation.accepted) / tokens), `${methods.join(", ")}; by position ${positions.join(" ")}`];
}

export class History {
  constructor() {
    this.rows = [];  // {time, running, …}: rows with the columns of /admin/history
    this.period = 5;
    this.figures = {running: new Figure("Running"), waiting: new Figure("Waiting"), tokens: new Figure("Tokens per second"),
                    first: new Figure("Time to first token"), used: new Figure("Blocks in use"), hits: new Figure("Cache hits"),
                    guesses: new Figure("Guesses right")};
    this.figures.guesses.element.hidden = true;
    this.figures.guesses.element.classList.add("whole");
    this.figures.guesses.spark.element.remove();
    for (const figure of Object.values(this.figures)) $("figures").append(figure.element);
    this.throughput = new LineChart("Tokens per second", [{name: "generated", color: "var(--accent)"}], {format: short});
    this.pool = new LineChart("Pool and cache", [{name: "in use", color: "var(--accent)"}, {name: "cached", color: "var(--warn)"}], {top: 1, format: percent});
    this.firstQuantiles = new LineChart("First token over time", QUANTILES, {format: seconds, least: 0.001});
    this.interQuantiles = new LineChart("Token gaps over time", QUANTILES, {format: seconds, least: 0.001});
    this.troubles = new LineChart("Refusals and errors", [{name: "refused", color: "var(--warn)"}, {name: "failed", color: "var(--bad)"}], {format: count});
    this.machine = new LineChart("Processors, memory", [{name: "processors of the host", color: "var(--accent)"}, {name: "its memory", color: "var(--warn)"}], {top: 1, format: percent});
    this.firstToken = new Histogram("Time to first token");
    this.interToken = new Histogram("Between two tokens");
    for (const chart of [this.throughput, this.pool, this.firstQuantiles, this.interQuantiles, this.troubles, this.machine, this.firstToken, this.interToken]) $("charts").append(chart.element);
    this.before = null;
    this.hits = [];
  }

  /** Returns the query of /admin/history for the samples that this page lacks. */
  query() {
    return `since=${Math.round((this.rows.at(-1)?.time ?? 0) * 1000)}`;
  }

  onHistory({period_seconds, columns, rows}) {
    this.period = period_seconds;
    const known = this.rows.at(-1)?.time ?? 0;
    for (const cells of rows) {
      const row = Object.fromEntries(columns.map((name, column) => [name, cells[column]]));
      if (row.time > known) this.rows.push(row);
    }
    this.rows.splice(0, this.rows.length - MOST_ROWS);
    this.#draw();
  }

  #draw() {
    const series = (pick) => this.rows.map(pick), name = (column) => series((row) => row[column]);
    const shown = Math.max(60, this.rows.length) * this.period;
    const used = series((row) => row.used_blocks / Math.max(1, row.blocks));
    this.figures.running.spark.show(name("running"));
    this.figures.waiting.spark.show(name("waiting"));
    this.figures.tokens.spark.show(name("tokens_per_second"));
    this.figures.first.spark.show(name("first_token_p50"));
    this.figures.used.spark.show(used, 1);
    this.throughput.show([name("tokens_per_second")], shown);
    this.pool.show([used, series((row) => row.cached_blocks / Math.max(1, row.blocks))], shown);
    this.firstQuantiles.show(["first_token_p50", "first_token_p95", "first_token_p99"].map(name), shown);
    this.interQuantiles.show(["inter_token_p50", "inter_token_p95", "inter_token_p99"].map(name), shown);
    const all = (column) => this.rows.reduce((total, row) => total + row[column], 0);
    this.troubles.show([name("refused"), name("failed")], shown, `${counted(all("refused"), "refusal")}, ${counted(all("failed"), "error")}`);
    const last = this.rows.at(-1);
    this.machine.show([name("host_busy"), series((row) => row.host_used_bytes / Math.max(1, row.host_bytes))], shown,
                      last && `coordinator ${last.cores.toFixed(2)} cores, ${bytes(last.resident_bytes)}`);
  }

  onStatus(status) {
    const now = performance.now();
    const generated = sum(status, (r) => r.generated_tokens), preemptions = sum(status, (r) => r.preemptions);
    const blocks = sum(status, (r) => r.blocks.device.total), used = sum(status, (r) => r.blocks.device.used);
    const rate = this.before ? Math.max(0, (generated - this.before.generated) / ((now - this.before.now) / 1000)) : 0;
    this.before = {now, generated};
    this.figures.running.show(count(sum(status, (r) => r.running)), `${count(sum(status, (r) => r.steps))} steps so far`);
    this.figures.waiting.show(count(sum(status, (r) => r.waiting)), `${counted(preemptions, "preemption")} so far`);
    this.figures.tokens.show(short(rate), `${short(generated)} generated so far`);
    this.figures.used.show(percent(used / Math.max(1, blocks)), `${count(used)} of ${count(blocks)}`);
    const guessed = guesses(status);
    this.figures.guesses.element.hidden = guessed === null;
    if (guessed !== null) this.figures.guesses.show(...guessed);
  }

  onMetrics(text) {
    const found = histograms(text, [FIRST_TOKEN, INTER_TOKEN]);
    const first = found[FIRST_TOKEN], inter = found[INTER_TOKEN];
    this.firstToken.show(first, quantile(first, 0.5), quantile(first, 0.95));
    this.interToken.show(inter, quantile(inter, 0.5), quantile(inter, 0.95));
    const hits = total(text, HITS), share = hits / Math.max(1, total(text, QUERIES));
    this.hits.push(share);
    this.hits.splice(0, this.hits.length - MOST_ROWS);
    this.figures.hits.show(percent(share), `${short(hits)} tokens saved`);
    this.figures.hits.spark.show(this.hits, 1);
    this.figures.first.show(seconds(quantile(first, 0.5)), first.count === 0 ? "once a request has ended" : `half of ${count(first.count)}; 95 %: ${seconds(quantile(first, 0.95))}`);
  }
}
