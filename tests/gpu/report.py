"""The report of a GPU run, as JSON and as a page for docs/benchmarks/: from what tests/gpu/run collected, and nothing
else. Numbers that are missing are said to be missing."""
import json

# (what, goal, section, words that the case contains, words that the variant contains, field)
GOALS = [
    ("decode attention 32 x 4K, GQA 4, bf16", ">= 0.88 of copy", "decode attention", "32 x 4K, GQA 4, bf16", "decode attention", "of_copy"),
    ("decode attention 8 x 8K, GQA 4, bf16", ">= 0.80 of copy", "decode attention", "8 x 8K, GQA 4, bf16", "decode attention", "of_copy"),
    ("decode attention 1 x 32K, GQA 4, bf16", ">= 0.60 of copy", "decode attention", "1 x 32K, GQA 4, bf16", "decode attention", "of_copy"),
    ("prefill attention 4K, head 128", ">= 250, then 450 TFLOP/s", "prefill attention", "1 x 4096 tokens, head size 128", "prefill attention", "tflop_per_s"),
    ("sampling, 64 rows, greedy", "<= 60 us", "sampling", "64 rows", "greedy", "median_us"),
    ("sampling, 64 rows, top-k 50, top-p 0.9", "<= 60 us", "sampling", "64 rows", "top-k 50, top-p 0.9", "median_us"),
    ("8B step, 1 sequence (extrapolated)", ">= 0.80 of copy", "decode steps", "1 sequences of 1024, 32 layers", "from", "of_copy"),
    ("8B step, 16 sequences (extrapolated)", ">= 0.80 of copy", "decode steps", "16 sequences of 1024, 32 layers", "from", "of_copy"),
    ("8B step, 64 sequences (extrapolated)", ">= 0.78 of copy", "decode steps", "64 sequences of 1024, 32 layers", "from", "of_copy"),
    ("8B step, 256 sequences (extrapolated)", ">= 0.74 of copy", "decode steps", "256 sequences of 1024, 32 layers", "from", "of_copy"),
]


def rows(report):
    return report.get("bench", {}).get("results", [])


def find(report, section, case, variant, field="median_us"):
    """The field of the first such row; None if there is none."""
    for row in rows(report):
        if row["section"] == section and row["case"].startswith(case) and row["variant"].startswith(variant):
            return row.get(field)
    return None


def ratio(a, b):
    return a / b if a and b else None


def compared(report):
    """[(what, goal, measured)] for everything that compares two ways of one run."""
    def decode(case, variant="decode attention"):
        return find(report, "decode attention", case, variant)
    out = []
    for lengths in ("32 x 4K", "8 x 8K", "1 x 32K"):
        baselines = [t for t in (decode(f"{lengths}, GQA 8, bf16", v) for v in ("v1", "v2")) if t]
        out.append((f"{lengths}, GQA 8: v1 time / decode attention time", ">= 2.5",
                    ratio(decode(f"{lengths}, GQA 8, bf16", "v1"), decode(f"{lengths}, GQA 8, bf16"))))
        out.append((f"{lengths}, GQA 8: better of v1, v2 / decode attention", "-",
                    ratio(min(baselines) if baselines else None, decode(f"{lengths}, GQA 8, bf16"))))
        out.append((f"{lengths}, GQA 4: FP8 time / bf16 time", "<= 0.56",
                    ratio(decode(f"{lengths}, GQA 4, FP8"), decode(f"{lengths}, GQA 4, bf16"))))
    out.append(("blocks of 16 shuffled / blocks of 64 in order", "<= 1.03",
                ratio(decode("32 x 4K, GQA 4, bf16, blocks of 16 shuffled"),
                      decode("32 x 4K, GQA 4, bf16, blocks of 64 in order"))))
    for row in rows(report):
        if row["section"] != "decode products" or row["variant"] != "cuBLASLt, first guess":
            continue
        ours = [r["median_us"] for r in rows(report)
                if r["case"] == row["case"] and r["variant"] != "cuBLASLt, first guess"]
        out.append((f"{row['case']}: best choice / first guess", "<= 1.00", ratio(min(ours) if ours else None, row["median_us"])))
        if row.get("m") == 1 and row.get("bytes"):
            best = min([*ours, row["median_us"]])
            copy = report["bench"].get("ceilings", {}).get("copy_gb_per_s")
            out.append((f"{row['case']}: best choice, of copy", ">= 0.80", ratio(row["bytes"] / best * 1e-3, copy)))
    step = report.get("step_kernels")
    if step:
        out.append(("kernels of a layer", "<= 7", step.get("per_layer")))
        wall = find(report, "decode steps", f"{step['batch']} sequences of {step['context']}, {step['layers']} layers", "one step ahead")
        out.append((f"step wall / sum of kernel times, {step['batch']} sequence(s), {step['layers']} layers", "<= 1.02",
                    ratio(wall, step.get("sum_us"))))
    return out


def number(x):
    if x is None:
        return "not measured"
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.1f}" if abs(x) >= 100 else f"{x:.3g}"


def table(head, lines):
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)] + ["| " + " | ".join(map(str, line)) + " |" for line in lines] + [""]


def passed(report):
    """True when every part that tests has passed; parts that measure may fail without making the code wrong."""
    return bool(report["parts"]) and all(p["status"] == "passed" for p in report["parts"] if p["tests"])


def markdown(report):
    facts = report["facts"]
    out = [f"# GPU run, {report['date']}", "",
           f"{facts.get('gpu', 'unknown GPU')}, driver {facts.get('driver', 'unknown')}; commit {report['commit']}, built for "
           f"{report['arch']}. Made by `tests/gpu/run`; clocks as found"
           f"{' (' + facts['clocks'] + ')' if facts.get('clocks') else ''}.", "", "## Tests", ""]
    out += table(["part", "outcome", "seconds", "in words"],
                 [[p["name"], p["status"], f"{p['seconds']:.0f}", p["detail"].replace("|", "/").replace("\n", " ")] for p in report["parts"]])
    bench = report.get("bench")
    if not bench:
        return "\n".join(out + ["Nothing was measured.", ""])
    ceilings = bench["ceilings"]
    out += ["## Ceilings of this run", "",
            f"Copy {number(ceilings['copy_gb_per_s'])} GB/s (read + written), read {number(ceilings['read_gb_per_s'])} GB/s, bf16 product "
            f"8192^3 {number(ceilings['bf16_tflop_per_s'])} TFLOP/s. Rules: {bench['rules']}.", "", "## Goals", ""]
    out += table(["what", "goal", "measured"],
                 [[what, goal, number(find(report, section, case, variant, field))] for what, goal, section, case, variant, field in GOALS]
                 + [[what, goal, number(value)] for what, goal, value in compared(report)])
    others = report.get("others", {})
    for note in others.get("notes", []):
        out += [f"Side by side: {note}.", ""]
    for section in dict.fromkeys(row["section"] for row in rows(report)):
        lines = []
        for row in rows(report) + others.get("results", []):
            if row["section"] == section:
                lines.append([row["case"], row["variant"], f"{row['median_us']:.1f} ({row['min_us']:.1f} to {row['max_us']:.1f})",
                              number(row["gb_per_s"]) if "gb_per_s" in row else "", number(row["of_copy"]) if "of_copy" in row else "",
                              number(row["tflop_per_s"]) if "tflop_per_s" in row else ""])
        formulas = dict.fromkeys(row["formula"] for row in rows(report) if row["section"] == section and row.get("formula"))
        out += [f"## {section.capitalize()}", "", "Bytes and operations: " + "; ".join(list(formulas)[:4]) + ".", ""] if formulas else [f"## {section.capitalize()}", ""]
        out += table(["case", "way", "us, median (range)", "GB/s", "of copy", "TFLOP/s"], lines)
    return "\n".join(out)


def write(report, folder):
    """Both files; returns their paths."""
    stem = f"{folder}/{report['date']}-gpu"
    with open(stem + ".json", "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
    with open(stem + ".md", "w", encoding="utf-8") as f:
        f.write(markdown(report))
    return stem + ".json", stem + ".md"


def sum_of_kernels(csv_text):
    """(kernels, microseconds) of ncu's CSV output with gpu__time_duration.sum."""
    import csv
    lines = [line for line in csv_text.splitlines() if line.startswith('"')]
    count, micros = 0, 0.0
    units = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3}
    for row in csv.DictReader(lines):
        if row.get("Metric Name") != "gpu__time_duration.sum":
            continue
        count += 1
        micros += float(row["Metric Value"].replace(",", "")) * units[row["Metric Unit"]]
    return count, micros
