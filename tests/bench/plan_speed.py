#!/usr/bin/env python3
"""plan_speed.py MODEL[:FLAG...] ...: compares the predictions of `quire plan` with the measurements of `quire bench latency`, for prompts
of 512 and 2,048 tokens and for the decode steps of one sequence after such a prompt. Prints medians over rounds; the environment variable
ROUNDS sets their number (default 3). The peak rates, from which a plan is computed, are measured immediately before and after each run."""
import json
import os
import statistics
import subprocess
import sys

QUIRE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "quire")


def run(*words):
    done = subprocess.run([QUIRE, *words, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(model, flags, length):
    """Yields, for a prompt and for the steps after it: a name, the predicted and the measured seconds, and what bounds the prediction. The
    prediction is the mean of two plans, with peak rates measured before and after the run."""
    plans = [run("plan", "--model", model, *flags)]
    taken = run("bench", "latency", "--model", model, *flags, "--batch-size", "1", "--input-len", str(length), "--output-len", "64",
                "--num-iters", "3")
    plans.append(run("plan", "--model", model, *flags))
    for kind, name, measured in (("prompts", f"prompt of {length}", taken["prefill_seconds"]["median"]),
                                 ("steps", f"step at {length}", taken["step_seconds"]["median"])):
        rows = [r for plan in plans for r in plan[kind] if (r["tokens"], r["sequences"]) == (length, 1)]
        if rows:
            yield name, sum(r["seconds"] for r in rows) / len(rows), measured, rows[0]["bound"]


def main():
    rounds = int(os.environ.get("ROUNDS", "3"))
    print("| model, flags | load | predicted | measured | predicted / measured | bound |\n| --- | --- | --- | --- | --- | --- |")
    for case in sys.argv[1:]:
        model, *flags = case.split(":")
        found = {}
        for _ in range(rounds):
            for length in (512, 2048):
                for name, *numbers in rows_of(model, flags, length):
                    found.setdefault(name, []).append(numbers)
        for name, all_rounds in found.items():
            predicted, measured = (statistics.median(numbers[i] for numbers in all_rounds) for i in (0, 1))
            ratios = [numbers[0] / numbers[1] for numbers in all_rounds]
            print(f"| {os.path.basename(model)} {' '.join(flags)} | {name} | {1e3 * predicted:.2f} ms | {1e3 * measured:.2f} ms "
                  f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {all_rounds[0][2]} |", flush=True)


if __name__ == "__main__":
    main()
