// Small charts in SVG: lines over the last minutes, and bars of a histogram.
import {el, setText, svg} from "../shared/dom.js";
import {seconds} from "../shared/format.js";

const WIDTH = 300, HEIGHT = 110;

const FEWEST = 60;  // least number of samples over the chart's width

/** Returns the points of one series as a list "x,y x,y" that fits WIDTH × height, the newest at the right. Null values are left out. */
function polyline(values, most, height) {
  const capacity = Math.max(FEWEST, values.length);
  const step = WIDTH / (capacity - 1), begin = capacity - values.length;
  return values.map((value, i) => (value === null ? "" : `${((begin + i) * step).toFixed(1)},${(height - 2 - (height - 4) * Math.min(1, value / most)).toFixed(1)}`)).filter(Boolean).join(" ");
}

/** A small chart: one line without axes. */
export class Sparkline {
  constructor(color = "var(--accent)") {
    this.line = svg("polyline", {fill: "none", stroke: color, "stroke-width": 1.5, "vector-effect": "non-scaling-stroke"});
    this.element = svg("svg", {viewBox: `0 0 ${WIDTH} 26`, preserveAspectRatio: "none", "aria-hidden": "true"}, this.line);
  }

  show(values, most = Math.max(1e-9, ...values.map(Number))) {
    this.line.setAttribute("points", polyline(values, most, 26));
  }
}

/** A chart of several series over time: [{name, color}]. top: the value at the upper edge; null means the largest value, but at least `least`. */
export class LineChart {
  constructor(title, series, {top = null, least = 1, format}) {
    this.least = least;
    this.top = top;
    this.format = format;
    this.series = series;
    this.lines = series.map(({color}) => svg("polyline", {fill: "none", stroke: color, "stroke-width": 1.7, "vector-effect": "non-scaling-stroke"}));
    const grid = [0, 0.5, 1].map((y) => svg("line", {x1: 0, x2: WIDTH, y1: 2 + (HEIGHT - 4) * y, y2: 2 + (HEIGHT - 4) * y, stroke: "var(--line)", "vector-effect": "non-scaling-stroke"}));
    this.picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img"}, ...grid, ...this.lines);
    this.now = el("span", {className: "now mono"});
    this.most = el("span");
    this.since = el("span");
    const keys = series.length > 1 ? el("div", {className: "keys"}, ...series.map(({name, color}) => {
      const swatch = el("i", {className: "swatch"});
      swatch.style.background = color;
      return el("span", {}, swatch, name);
    })) : null;
    this.element = el("div", {className: "card chart"}, this.now, el("h2", {}, title), this.picture,
                      el("div", {className: "axis"}, this.since, this.most), keys);
    this.title = title;
  }

  /** note: further text for the lower edge. */
  show(values, secondsShown, note = "") {
    const most = this.top ?? Math.max(this.least, ...values.flat().map(Number));
    this.lines.forEach((line, i) => line.setAttribute("points", polyline(values[i], most, HEIGHT)));
    const latest = this.series.map(({name}, i) => `${this.series.length > 1 ? name + " " : ""}${this.format(values[i].findLast((value) => value !== null) ?? 0)}`);
    setText(this.now, this.format(values[0].findLast((value) => value !== null) ?? 0));
    setText(this.most, this.top !== null && note ? note : [note, `top: ${this.format(most)}`].filter(Boolean).join(" · "));
    setText(this.since, `last ${seconds(secondsShown)}`);
    this.picture.setAttribute("aria-label", `${this.title}: now ${latest.join(", ")}; at most ${this.format(most)}`);
  }
}

/** Shows a histogram as bars, without the empty buckets at both ends. */
export class Histogram {
  constructor(title) {
    this.title = title;
    this.picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img"});
    this.now = el("span", {className: "now mono"});
    this.low = el("span");
    this.high = el("span");
    this.element = el("div", {className: "card chart"}, this.now, el("h2", {}, title), this.picture, el("div", {className: "axis"}, this.low, this.high));
  }

  show({bounds, counts, count}, median, high) {
    const first = Math.max(0, counts.findIndex((n) => n > 0)), last = counts.findLastIndex((n) => n > 0);
    const shown = counts.slice(first, last + 1), most = Math.max(1, ...shown), bar = WIDTH / Math.max(1, shown.length);
    this.picture.replaceChildren(...shown.map((n, i) => {
      const height = Math.max(n > 0 ? 2 : 0.6, (HEIGHT - 4) * n / most);
      return svg("rect", {x: i * bar + bar * 0.08, width: bar * 0.84, y: HEIGHT - height, height, rx: 1.5, fill: n > 0 ? "var(--accent)" : "var(--line)"});
    }));
    const word = count === 0 ? "none yet" : `half within ${seconds(median)}, 95 % within ${seconds(high)}`;
    setText(this.now, count === 0 ? "–" : seconds(median));
    setText(this.low, count === 0 ? "none yet" : first === 0 ? "0" : seconds(bounds[first - 1]));
    setText(this.high, count === 0 ? "" : Number.isFinite(bounds[last]) ? `95 %: ${seconds(high)} · up to ${seconds(bounds[last])}` : `95 %: ${seconds(high)}`);
    this.picture.setAttribute("aria-label", `${this.title} of ${count}: ${word}`);
  }
}
