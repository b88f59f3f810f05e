"""Makes the report of a GPU run, as JSON and as a page for docs/benchmarks/, only from the files that tests/gpu/run
collected. Missing numbers are named as missing."""
import csv
import json
import os

import goals
from goals import number

# Parts whose outcome tells whether the code is correct; other parts only measure.
TESTS = ("gtest", "program", "sanitizer")


def read_json(path):
    """Returns the content of a JSON file; None where the file is missing or incomplete, because its writer may have been killed."""
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def merge(folder, sections):
    """Merges the benchmarks of all sections that left a file; returns None if no section did. Each process measured its own ceilings:
    those of the first process are the run's, and the others show how steady the device was."""
    merged = None
    for section in sections:
        part = read_json(os.path.join(folder, section + ".json"))
        if part is None:
            continue
        if merged is None:
            merged = {**part, "ceilings_by_section": {}}
        else:
            merged["results"] += [row for row in part["results"] if row["section"] != "ceilings"]
            merged["checks"] += part["checks"]
        merged["ceilings_by_section"][section] = part["ceilings"]
    return merged


def table(head, lines):
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)] + ["| " + " | ".join(map(str, line)) + " |" for line in lines] + [""]


def passed(report):
    """Returns True when every testing part has passed and no benchmark had a wrong result. A measuring part may fail without making the
    code wrong."""
    tests = [p for p in report["parts"] if p["tests"]]
    return bool(tests) and all(p["status"] == "passed" for p in tests) and not goals.wrong(report)


def one_line(text):
    return text.replace("|", "/").replace("\n", " ")


def markdown(report):
    facts = report["facts"]
    out = [f"# GPU run, {report['date']}", "",
           f"{facts.get('gpu', 'unknown GPU')}, driver {facts.get('driver', 'unknown')}; commit {report['commit']}, built for "
           f"{report['arch']}. Made by `tests/gpu/run`; clocks as found ({facts.get('clocks', 'unknown')}).", ""]
    for when in ("before", "during", "after"):
        if report.get("clocks", {}).get(when):
            out += [f"Clocks {when}: {report['clocks'][when]}.", ""]
    out += ["## Parts", ""]
    out += table(["part", "outcome", "seconds", "in words", "clocks"],
                 [[p["name"], p["status"], f"{p['seconds']:.0f}", one_line(p["detail"]), p.get("clocks", "")] for p in report["parts"]])
    bench = report.get("bench")
    if not bench:
        return "\n".join(out + ["Nothing was measured.", ""])
    out += ["## Ceilings of this run", "", f"{goals.in_words(bench['ceilings'])}. Rules: {bench['rules']}.", ""]
    out += table(["measured with", "copy, GB/s", "read, GB/s", "bf16 product, TFLOP/s"],
                 [[section, *(number(c[name]) for name in ("copy_gb_per_s", "read_gb_per_s", "bf16_tflop_per_s"))]
                  for section, c in bench.get("ceilings_by_section", {}).items()])
    out += ["## Goals", ""] + table(["what", "goal", "measured", "of the ceiling", "met"], [goals.said(row) for row in goals.table(report)])
    out += ["## Results", "", goals.checks_in_words(report) + ".", ""]
    return "\n".join(out + measured(report))


def measured(report):
    others, out = report.get("others", {}), []
    for note in others.get("notes", []):
        out += [f"Side by side: {note}.", ""]
    for section in dict.fromkeys(row["section"] for row in goals.rows(report)):
        lines = []
        for row in goals.rows(report) + others.get("results", []):
            if row["section"] == section:
                lines.append([row["case"], row["variant"], f"{row['median_us']:.1f} ({row['min_us']:.1f} to {row['max_us']:.1f})",
                              *(number(row[field]) if field in row else "" for field in ("gb_per_s", "of_copy", "tflop_per_s"))])
        formulas = dict.fromkeys(row["formula"] for row in goals.rows(report) if row["section"] == section and row.get("formula"))
        out += [f"## {section.capitalize()}", ""]
        if formulas:
            out += ["Bytes and operations: " + "; ".join(list(formulas)[:4]) + ".", ""]
        out += table(["case", "way", "us, median (range)", "GB/s", "of copy", "TFLOP/s"], lines)
    return out


def write(report, folder):
    """Writes the JSON and the page; returns their paths."""
    stem = f"{folder}/{report['date']}-gpu"
    for suffix, text in ((".json", json.dumps(report, indent=1)), (".md", markdown(report))):
        with open(stem + suffix + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(stem + suffix + ".new", stem + suffix)  # a run that is killed leaves the last complete file
    return stem + ".json", stem + ".md"


def sum_of_kernels(csv_text):
    """Returns (number of kernels, microseconds) from ncu's CSV output with gpu__time_duration.sum."""
    lines = [line for line in csv_text.splitlines() if line.startswith('"')]
    count, micros = 0, 0.0
    units = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3}
    for row in csv.DictReader(lines):
        if row.get("Metric Name") != "gpu__time_duration.sum":
            continue
        count += 1
        micros += float(row["Metric Value"].replace(",", "")) * units[row["Metric Unit"]]
    return count, micros


def step_kernels(few, many):
    """Combines the profiles of one decode step with 2 and with 6 layers, each (kernels, microseconds). Returns None if the first has no
    kernels or the second has no more than the first."""
    if not few[0] or many[0] <= few[0]:
        return None
    return {"batch": 1, "context": 1024, "layers": 6, "kernels": many[0], "sum_us": many[1], "per_layer": (many[0] - few[0]) / 4}
