#!/usr/bin/env python3
"""Times attention by PyTorch, and by cuDNN through PyTorch, at the shapes of quire bench kernels and by the same rules: random data, more
than 320 MB rotating, CUDA graphs between events, several rounds. Writes JSON to the named file, and prints one line about the kernels that
were not available."""
import json
import statistics
import sys

ROUNDS, COLD_BYTES, CALLS = 5, 320 << 20, 20


def measure(torch, queue, sets):
    for s in range(sets):
        queue(s)
    torch.cuda.synchronize()
    calls = max(CALLS, sets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in range(calls):
            queue(call % sets)
    times = []
    for _ in range(ROUNDS + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    times = times[1:]
    return {"median_us": statistics.median(times), "min_us": min(times), "max_us": max(times)}


def decode(torch, results):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    for name, batch, context in (("32 x 4K", 32, 4096), ("8 x 8K", 8, 8192), ("1 x 32K", 1, 32768), ("1 x 1K", 1, 1024)):
        for group in (4, 8):
            size = 2 * batch * 8 * context * 128 * 2
            sets = max(1, -(-COLD_BYTES // size))
            q = torch.randn(batch, 8 * group, 1, 128, device="cuda", dtype=torch.bfloat16)
            kv = [torch.randn(2, batch, 8, context, 128, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
            row = measure(torch, lambda s: sdpa(q, kv[s][0], kv[s][1], enable_gqa=True), sets)
            row.update(section="decode attention", case=f"{name}, GQA {group}, bf16", variant="PyTorch SDPA, contiguous",
                       bytes=size, gb_per_s=size / row["median_us"] * 1e-3)
            results.append(row)


def prefill(torch, results):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    for dim in (64, 128):
        for batch, length in ((8, 512), (4, 1024), (2, 2048), (1, 4096), (1, 16384)):
            size = 3 * batch * 32 * length * dim * 2
            sets = max(1, -(-COLD_BYTES // size))
            qkv = [torch.randn(3, batch, 32, length, dim, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
            row = measure(torch, lambda s: sdpa(qkv[s][0], qkv[s][1], qkv[s][2], is_causal=True), sets)
            flops = 4.0 * batch * 32 * dim * length * (length + 1) / 2
            row.update(section="prefill attention", case=f"{batch} x {length} tokens, head size {dim}, 32 heads, MHA",
                       variant="PyTorch SDPA, contiguous", flops=flops, tflop_per_s=flops / row["median_us"] * 1e-6)
            results.append(row)


def cudnn_prefill(torch, results):
    """Runs the prefill cases with cuDNN."""
    rows = []
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        prefill(torch, rows)
    results.extend(row | {"variant": "cuDNN, contiguous"} for row in rows)


def main():
    report = {"results": [], "notes": []}
    try:
        import torch
        report["torch"] = torch.__version__
        parts = [("PyTorch decode", lambda: decode(torch, report["results"])),
                 ("PyTorch prefill", lambda: prefill(torch, report["results"])),
                 ("cuDNN prefill", lambda: cudnn_prefill(torch, report["results"]))]
        for name, part in parts:
            try:
                part()
            except Exception as error:  # pylint: disable=broad-except; the results of other kernels are still useful
                report["notes"].append(f"{name}: {error}")
            with open(sys.argv[1], "w", encoding="utf-8") as f:
                json.dump(report, f)
    except ImportError:
        report["notes"].append("PyTorch is not installed")
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        json.dump(report, f)
    for row in report["results"]:
        print(f"{row['section']}: {row['case']}: {row['variant']} {row['median_us']:.1f} us")
    print("; ".join(report["notes"]))


if __name__ == "__main__":
    main()
