#!/usr/bin/env python3
"""plan_speed.py MODEL[:FLAG...] ...: what `quire plan` predicts against what `quire bench latency` measures, for prompts of 512 and 2,048
tokens and for steps of one sequence behind them. The peaks that a plan is reckoned from are measured right before each run."""
import json
import os
import subprocess
import sys

QUIRE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "quire")


def run(*words):
    done = subprocess.run([QUIRE, *words, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    print("| model, flags | load | predicted | measured | predicted / measured | bound |\n| --- | --- | --- | --- | --- | --- |")
    for case in sys.argv[1:]:
        model, *flags = case.split(":")
        for length in (512, 2048):
            plan = run("plan", "--model", model, *flags)
            taken = run("bench", "latency", "--model", model, *flags, "--batch-size", "1", "--input-len", str(length), "--output-len", "64",
                        "--num-iters", "3")
            rows = {kind: next((r for r in plan[kind] if (r["tokens"], r["sequences"]) == (length, 1)), None) for kind in ("prompts", "steps")}
            for kind, name, measured in (("prompts", f"prompt of {length}", taken["prefill_seconds"]["median"]),
                                         ("steps", f"step at {length}", taken["step_seconds"]["median"])):
                row = rows[kind]
                if row is not None:
                    print(f"| {os.path.basename(model)} {' '.join(flags)} | {name} | {1e3 * row['seconds']:.2f} ms | {1e3 * measured:.2f} ms "
                          f"| {row['seconds'] / measured:.2f} | {row['bound']} |", flush=True)


if __name__ == "__main__":
    main()
