"""Lists the goals of the GPU backend, and how far a run reached them: measured numbers, each with its share of a ceiling that the same
run measured."""
import collections

# share: the share of the best copy ("of_copy") or product ("of_gemm") of the same run; None where neither applies.
Row = collections.namedtuple("Row", "what goal bound value share", defaults=(None,))

# (quantity, "at least" or "at most", bound, section, prefix of the case, prefix of the variant, field)
MEASURED = [
    ("decode attention 32 x 4K, GQA 4, bf16", ">=", 0.88, "decode attention", "32 x 4K, GQA 4, bf16", "decode attention", "of_copy"),
    ("decode attention 8 x 8K, GQA 4, bf16", ">=", 0.80, "decode attention", "8 x 8K, GQA 4, bf16", "decode attention", "of_copy"),
    ("decode attention 1 x 32K, GQA 4, bf16", ">=", 0.60, "decode attention", "1 x 32K, GQA 4, bf16", "decode attention", "of_copy"),
    ("prefill attention 4K, head 128, TFLOP/s", ">=", 250, "prefill attention", "1 x 4096 tokens, head size 128", "prefill attention", "tflop_per_s"),
    ("the same by warpgroups, TFLOP/s", ">=", 400, "prefill attention", "1 x 4096 tokens, head size 128", "by warpgroups", "tflop_per_s"),
    ("sampling, 64 rows, greedy, us", "<=", 60, "sampling", "64 rows", "greedy", "median_us"),
    ("sampling, 64 rows, top-k 50, top-p 0.9, us", "<=", 60, "sampling", "64 rows", "top-k 50, top-p 0.9", "median_us"),
] + [(f"8B step, batch {batch} (extrapolated)", ">=", bound, "decode steps", f"{batch} sequences of 1024, 32 layers", "from", "of_copy")
     for batch, bound in ((1, 0.80), (16, 0.80), (64, 0.78), (256, 0.74))]

FIRST_GUESS = "cuBLASLt, first guess"


def rows(report):
    return report.get("bench", {}).get("results", [])


def find(report, section, case, variant):
    """Returns the first row of the section whose case and variant begin with these texts; an empty row if there is none."""
    for row in rows(report):
        if row["section"] == section and row["case"].startswith(case) and row["variant"].startswith(variant):
            return row
    return {}


def ratio(a, b):
    return a / b if a and b else None


def share(row):
    """Returns the larger of the row's shares of the two ceilings (copy bandwidth and matrix products), with the ceiling's name; None
    without a ceiling."""
    known = [(row[field], name) for field, name in (("of_copy", "copy"), ("of_gemm", "product")) if row.get(field)]
    return max(known) if known else None


def attention(report):
    def decode(case, variant="decode attention"):
        return find(report, "decode attention", case, variant)
    out = []
    for lengths in ("32 x 4K", "8 x 8K", "1 x 32K"):
        fast = decode(f"{lengths}, GQA 8, bf16")
        times = {variant: decode(f"{lengths}, GQA 8, bf16", variant).get("median_us") for variant in ("v1", "v2")}
        out.append(Row(f"{lengths}, GQA 8: v1 time / decode attention time", ">=", 2.5, ratio(times["v1"], fast.get("median_us")), share(fast)))
        best = min([t for t in times.values() if t], default=None)
        out.append(Row(f"{lengths}, GQA 8: better of v1, v2 / decode attention", ">=", 1, ratio(best, fast.get("median_us")), share(fast)))
        fp8, bf16 = decode(f"{lengths}, GQA 4, FP8"), decode(f"{lengths}, GQA 4, bf16")
        out.append(Row(f"{lengths}, GQA 4: FP8 time / bf16 time", "<=", 0.56, ratio(fp8.get("median_us"), bf16.get("median_us")), share(fp8)))
    paged, ordered = (decode(f"32 x 4K, GQA 4, bf16, blocks of {blocks}") for blocks in ("16 shuffled", "64 in order"))
    slower = ratio(paged.get("median_us"), ordered.get("median_us"))
    return out + [Row("blocks of 16 shuffled / blocks of 64 in order", "<=", 1.03, slower, share(paged))]


def library(report):
    """Returns FlashInfer's time divided by Quire's, for the cases that both have. FlashInfer runs its FA2 kernels, also for prompts on
    Hopper."""
    out = []
    for section, cases in (("decode attention", ("32 x 4K, GQA 4, bf16", "8 x 8K, GQA 4, bf16", "1 x 32K, GQA 4, bf16")),
                           ("prefill attention", ("1 x 4096 tokens, head size 128", "1 x 16 tokens at the end of 32768, head size 128"))):
        for case in cases:
            ours, theirs = (find(report, section, case, variant) for variant in (section, "FlashInfer"))
            out.append(Row(f"{section}, {case}: FlashInfer / ours", ">=", 1, ratio(theirs.get("median_us"), ours.get("median_us")), share(ours)))
    return out


def products(report):
    """Returns a row for each weight that was measured with one row of activations, and a row for the weight whose best choice compares
    worst with cuBLASLt's first suggestion."""
    choices = {}
    for row in rows(report):
        if row["section"] == "decode products":
            choices.setdefault(row["case"], {})[row["variant"]] = row
    out, worst = [], None
    for case, variants in choices.items():
        guess = variants.get(FIRST_GUESS, {})
        best = min((row for name, row in variants.items() if name != FIRST_GUESS), key=lambda row: row["median_us"], default={})
        slower = ratio(best.get("median_us"), guess.get("median_us"))
        if slower and (worst is None or slower > worst[0]):
            worst = slower, case, best
        if guess.get("m") == 1 and best:
            out.append(Row(f"{case}: best choice", ">=", 0.80, best.get("of_copy"), share(best)))
    slower, case, best = worst or (None, "products", {})
    out = out or [Row("decode products of 1 row: best choice", ">=", 0.80, None)]
    return out + [Row(f"best choice / first guess, at worst ({case})", "<=", 1, slower, share(best))]


def steps(report):
    step = report.get("step_kernels") or {}
    row = find(report, "decode steps", f"{step.get('batch')} sequences of {step.get('context')}, {step.get('layers')} layers", "one step ahead")
    wall, kernels = row.get("median_us"), step.get("sum_us")
    return [Row("kernels of a layer", "<=", 7, step.get("per_layer")),
            Row("step wall / sum of kernel times, 1 sequence", "<=", 1.02, ratio(wall, kernels), share(row)),
            Row("step wall - sum of kernel times, 1 sequence, us", "<=", 30, wall - kernels if wall and kernels else None, share(row))]


def table(report):
    """Returns all goals as rows."""
    out = []
    for what, goal, bound, section, case, variant, field in MEASURED:
        row = find(report, section, case, variant)
        out.append(Row(what, goal, bound, row.get(field), share(row)))
    return out + attention(report) + library(report) + products(report) + steps(report)


def met(row):
    if row.value is None:
        return "-"
    return "yes" if (row.value >= row.bound if row.goal == ">=" else row.value <= row.bound) else "NO"


def number(x):
    if x is None:
        return "not measured"
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.1f}" if abs(x) >= 100 else f"{x:.3g}"


def said(row):
    """Returns the row's texts: (quantity, goal, measured, share of the ceiling, met)."""
    of = f"{row.share[0]:.2f} of {row.share[1]}" if row.share else "-"
    return row.what, f"{row.goal} {row.bound:g}", number(row.value), of, met(row)


def text(report):
    """Returns lines for a terminal: one each for ceilings and checks, then the table of goals."""
    ceilings = report.get("bench", {}).get("ceilings")
    lines = ["ceilings of this run: " + (in_words(ceilings) if ceilings else "not measured"), "results: " + checks_in_words(report), ""]
    lines += [f"{what:<58.58} {goal:>8} {measured:>12} {of:>16} {good:>4}" for what, goal, measured, of, good in
              [("goal", "", "measured", "of the ceiling", "met"), *(said(row) for row in table(report))]]
    return "\n".join(lines)


def in_words(ceilings):
    return (f"copy {number(ceilings['copy_gb_per_s'])} GB/s (read + written), read {number(ceilings['read_gb_per_s'])} GB/s, bf16 product "
            f"8192^3 {number(ceilings['bf16_tflop_per_s'])} TFLOP/s")


def wrong(report):
    return [check for check in report.get("bench", {}).get("checks", []) if not check["good"]]


def checks_in_words(report):
    checks = report.get("bench", {}).get("checks", [])
    names = [f"{c['section']}: {c['case']}: {c['variant']}" for c in wrong(report)]
    return f"{len(checks)} checked, {len(names)} wrong" + (": " + "; ".join(names[:5]) if names else "")
