// Shows replicas and ranks with their step times, epochs and losses.
import {$, el, keepList, setText} from "../shared/dom.js";
import {bytes, count, counted, seconds} from "../shared/format.js";
import {Sparkline} from "./charts.js";

const SAMPLES = 60;
const SLOW = 1.5;  // a rank whose step takes longer than SLOW medians of its replica is a straggler
const HEALTH_CLASS = {ok: "good", slow: "warn", late: "warn", starting: "warn", lost: "bad"};

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

export class ClusterView {
  constructor() {
    this.times = new Map();  // the last step times of each rank
  }

  show(status, topology) {
    const ranks = topology.replicas.flatMap((replica) => this.#ranksOf(replica, topology.replicas.length > 1));
    keepList($("ranks"), ranks, (rank) => rank.key, (rank) => this.#row(rank), (row, rank) => this.#fill(row, rank));
    const hosts = topology.nodes.length, moved = status.migrations;
    const parts = [`${counted(topology.replicas.length, "replica")}, ${counted(ranks.length, "worker")} on ${counted(hosts, "host")}`];
    if (topology.replicas.length > 1) parts.push(`${counted(moved.with_blocks, "migration")} with blocks, ${count(moved.bare)} without, ${bytes(moved.bytes)} moved`);
    for (const replica of topology.replicas) {
      if (replica.state !== "serving") parts.push(`replica ${replica.replica}: ${replica.state}`);
    }
    setText($("cluster-summary"), parts.join(" · "));
    this.#losses(status);
  }

  #ranksOf(replica, named) {
    const usual = median(replica.ranks.map((rank) => rank.last_step_micros));
    return replica.ranks.map((rank) => {
      const key = `${replica.replica}/${rank.rank}`;
      const times = this.times.get(key) ?? [];
      times.push(rank.last_step_micros);
      if (times.length > SAMPLES) times.shift();
      this.times.set(key, times);
      const slow = replica.ranks.length > 1 && rank.health === "ok" && usual > 0 && rank.last_step_micros > SLOW * usual;
      return {...rank, key, times, health: slow ? "slow" : rank.health, name: named ? `replica ${replica.replica}, rank ${rank.rank}` : `rank ${rank.rank}`};
    });
  }

  #row() {
    const spark = new Sparkline();
    spark.element.setAttribute("width", "120");
    spark.element.setAttribute("height", "22");
    const row = el("tr", {}, el("td", {className: "name"}), el("td", {className: "host"}), el("td", {}, el("span", {className: "pill"})),
                   el("td", {className: "time"}), el("td", {}, spark.element), el("td", {className: "number weights"}), el("td", {className: "number process"}));
    row.spark = spark;
    return row;
  }

  #fill(row, rank) {
    const at = (name) => row.querySelector(name);
    setText(at(".name"), rank.name);
    setText(at(".host"), `${rank.host} · ${rank.isa}`);
    at(".pill").className = `pill ${HEALTH_CLASS[rank.health]}`;
    setText(at(".pill"), rank.health);
    setText(at(".time"), `${seconds(rank.last_step_micros / 1e6)} (step ${count(rank.last_step)})`);
    row.spark.show(rank.times);
    setText(at(".weights"), bytes(rank.weight_bytes));
    setText(at(".process"), String(rank.pid));
  }

  #losses(status) {
    const losses = status.replicas.flatMap((replica) => replica.losses.map((loss) => ({...loss, replica: replica.replica})));
    losses.sort((a, b) => a.seconds_ago - b.seconds_ago);
    setText($("epochs"), status.replicas.map((replica) => (status.replicas.length > 1 ? `replica ${replica.replica}: ` : "") + `epoch ${replica.epoch}, ${replica.recoveries === 1 ? "1 recovery" : `${replica.recoveries} recoveries`}`).join(" · "));
    $("no-losses").hidden = losses.length > 0;
    keepList($("losses"), losses, (loss) => `${loss.replica}/${loss.epoch}/${loss.message}`,
             () => el("li", {}, el("time", {}), el("span", {className: "text"})),
             (line, loss) => {
               setText(line.querySelector("time"), `${seconds(loss.seconds_ago)} ago`);
               const stall = loss.stall_seconds === null ? "not yet back" : `back after ${seconds(loss.stall_seconds)}`;
               setText(line.querySelector(".text"), `epoch ${loss.epoch}, ${loss.cause}: ${loss.message} (${stall})`);
             });
  }
}
