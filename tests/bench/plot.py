#!/usr/bin/env python3
"""Draws charts (SVG) of benchmarks' JSON results. Needs plot-requirements.txt.

  plot.py memory RESULTS.json DIRECTORY    of build/memory_bench --json: memory, waste, throughput, latency, recovery
  plot.py serve RESULT.json FILE.svg       of quire bench serve --json: the share of requests done within a time
  plot.py plan PLAN.json DIRECTORY         of quire plan --simulate --json: speed and times by how fast requests come
  plot.py peers ROUNDS.json FILE.svg       of peers.py --json: speeds relative to the last engine listed for each model

The same JSON gives the same file: no dates, no random names, text as text."""
import argparse
import json
import os
import statistics

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "quire", "font.family": "sans-serif", "font.size": 10,
                            "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.grid.axis": "y",
                            "grid.color": "#dddddd", "axes.axisbelow": True, "legend.frameon": False})
# Okabe and Ito's colours, which colour-blind people can tell apart.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#999999"]
MARKERS = "os^Dv"
SIZE = (7.6, 4.4)  # inches


def save(figure, path):
    figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    pyplot.close(figure)


def beside(axes, **more):
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, **more)


def in_order(values):
    return list(dict.fromkeys(values))


def lines(path, title, x_label, y_label, series, binary=False, most=None):
    """Draws a chart with one line for each series. series: {name: [(x, y)]}. binary: x are powers of two. most: upper end of the y axis."""
    figure, axes = pyplot.subplots(figsize=SIZE)
    for (name, points), colour, marker in zip(series.items(), COLOURS, MARKERS):
        many = len(points) > 50
        axes.plot(*zip(*points), color=colour, marker=None if many else marker, markersize=4, label=name)
    if binary:
        xs = sorted({x for points in series.values() for x, _ in points})
        axes.set_xscale("log", base=2)
        axes.set_xticks(xs, [str(x) for x in xs])
        axes.minorticks_off()
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.set_ylim(0, most)
    beside(axes)
    save(figure, path)


def shares(path, title, runs):
    """Draws how KV slots are used, one bar for each policy."""
    figure, axes = pyplot.subplots(figsize=SIZE)
    below = [0.0] * len(runs)
    names = {"live": "live tokens", "reserved": "reserved", "internal": "internal frag.", "external": "external frag.", "free": "free"}
    for (key, name), colour in zip(names.items(), COLOURS):
        heights = [100 * run[key] for run in runs]
        bars = axes.bar([run["policy"] for run in runs], heights, bottom=below, color=colour, label=name, width=0.6)
        axes.bar_label(bars, [f"{height:.1f}" if height >= 4 else "" for height in heights], label_type="center", fontsize=9)
        below = [b + h for b, h in zip(below, heights)]
    axes.set(title=title, ylabel="% of the KV slots", ylim=(0, 100))
    beside(axes, reverse=True)
    save(figure, path)


def over(runs, x, y, group, scale=1):
    return {name: [(run[x], scale * run[y]) for run in runs if run[group] == name] for name in in_order(run[group] for run in runs)}


def recovery(path, title, points):
    longest = max(point["tokens"] for point in points)
    points = [point for point in points if point["tokens"] == longest]
    series = {name: [(point["block_size"], point[key]) for point in points]
              for name, key in (("swap out and in", "swap_seconds"), ("recompute", "recompute_seconds"))}
    lines(path, f"{title}: a sequence of {longest} tokens", "block size (tokens)", "seconds", series, binary=True)


def memory(found, directory):
    os.makedirs(directory, exist_ok=True)
    file = lambda name: os.path.join(directory, name + ".svg")
    for trace in in_order(run["trace"] for run in found["policies"]):
        of_trace = lambda runs: [run for run in runs if run["trace"] == trace]
        shares(file(f"kv-memory-{trace}"), f"KV memory by policy ({trace})", of_trace(found["policies"]))
        rates = of_trace(found["rates"])
        lines(file(f"throughput-by-rate-{trace}"), f"Throughput by request rate ({trace})", "offered requests/s", "output tokens/s",
              over(rates, "requests_per_second_offered", "output_tokens_per_second", "policy"))
        lines(file(f"latency-by-rate-{trace}"), f"Latency by request rate ({trace})", "offered requests/s", "seconds per output token (mean)",
              over(rates, "requests_per_second_offered", "normalised_latency", "policy"), most=5 * found["latency_limit"])
    sizes = found["block_sizes"]
    lines(file("waste-by-block-size"), "KV waste by block size", "block size (tokens)", "% of the allocated slots",
          over(sizes, "block_size", "kv_waste", "trace", 100), binary=True)
    lines(file("throughput-by-block-size"), "Throughput by block size", "block size (tokens)", "output tokens/s",
          over(sizes, "block_size", "output_tokens_per_second", "trace"), binary=True)
    recovery(file("recovery-modelled"), "Accelerator behind PCIe (modelled)", found["recovery_modelled"])
    if "recovery_measured" in found:
        recovery(file("recovery-measured"), "CPU workers (measured)", found["recovery_measured"])


def serve(found, path):
    def curve(key):
        seconds = sorted(request[key] for request in found["requests"])
        return [(100 * (i + 1) / len(seconds), value) for i, value in enumerate(seconds)]

    lines(path, f"{found['completed']} of {found['completed'] + found['failed']} requests",
          "% of those that came to their end, from the fastest on", "seconds",
          {"first token": curve("first_token_seconds"), "whole request": curve("seconds")})


def plan(found, directory):
    os.makedirs(directory, exist_ok=True)
    by_rate = lambda value: [(load["requests_a_second"], value(load)) for load in found["loads"]]
    lines(os.path.join(directory, "planned-throughput.svg"), "Throughput by request rate (planned)", "requests/s that come", "output tokens/s",
          {"answers": by_rate(lambda load: load["tokens_a_second"])})
    for key, name in (("first_token", "Time to the first token"), ("each_token", "Time between tokens")):
        lines(os.path.join(directory, f"planned-{key.replace('_', '-')}.svg"), f"{name} (planned)", "requests/s that come", "seconds",
              {f"{100 * float(share):.0f} %": by_rate(lambda load, share=share: load[key + "_seconds"][share]) for share in ("0.5", "0.9", "0.99")})


def speeds(rounds):
    """Returns (loads, {way: speeds relative to the last way}) of one model; a way is an engine with its options. Leaves out the start and
    the memory, which only the tables show."""
    ways = {}
    for one in rounds:
        if "found" in one:
            ways.setdefault(one["way"], []).append(one["found"])
    loads = [title for title in next(iter(ways.values()))[0] if not title.startswith(("start", "resident memory"))]
    medians = {way: [statistics.median(numbers[title] for numbers in found) ** (1 if "a second" in title else -1) for title in loads]
               for way, found in ways.items()}
    last = medians[list(medians)[-1]]
    names = [title.split(",")[0] + (", last first token" if "the last" in title else ", first token" if "first token" in title else "")
             for title in loads]
    return names, {way: [speed / of_last for speed, of_last in zip(found, last)] for way, found in medians.items()}


def peers(found, path):
    models = in_order(one["model"] for one in found["rounds"])
    panels = [(model, *speeds([one for one in found["rounds"] if one["model"] == model])) for model in models]
    rows = [len(names) * (len(ways) + 0.8) + 3 for _, names, ways in panels]
    figure, all_axes = pyplot.subplots(len(panels), figsize=(8.6, 0.14 * sum(rows)), height_ratios=rows, squeeze=False, layout="constrained")
    figure.suptitle("Speed, the last of each group = 1 (longer is faster)")
    for axes, (model, names, ways) in zip(all_axes.flat, panels):
        height = 1 / (len(ways) + 0.8)
        for i, ((way, values), colour) in enumerate(zip(ways.items(), COLOURS)):
            bars = axes.barh([row + height * i for row in range(len(names))], values, height, color=colour, label=way)
            axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
        axes.set_yticks([row + height * (len(ways) - 1) / 2 for row in range(len(names))], names)
        axes.invert_yaxis()
        axes.set_title(model, loc="left", fontsize=10, fontweight="bold", pad=18)
        axes.grid(False)
        axes.margins(x=0.1)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(ways), borderaxespad=0, fontsize=8)
    save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("memory", "serve", "plan", "peers"))
    parser.add_argument("json", metavar="JSON")
    parser.add_argument("out", metavar="OUT")
    o = parser.parse_args()
    with open(o.json, encoding="utf-8") as f:
        found = json.load(f)
    {"memory": memory, "serve": serve, "plan": plan, "peers": peers}[o.kind](found, o.out)


if __name__ == "__main__":
    main()
