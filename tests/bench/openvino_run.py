#!/usr/bin/env python3
"""The workloads of peers.py in OpenVINO GenAI, in this process, without HTTP: what peers.py --openvino starts, with an
interpreter that has openvino-genai. Prints the numbers of peers.ROWS as a JSON list.

  openvino_run.py DIR SEED"""
import json
import random
import resource
import statistics
import sys
import time

import numpy
import openvino
import openvino_genai


def run(pipeline, rng, count, prompt_tokens, tokens, prefix_tokens=0):
    """Per request, when its tokens came, and the time of all."""
    prefix = [rng.randrange(1000, 20000) for _ in range(prefix_tokens)]
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = tokens
    config.ignore_eos, config.do_sample = True, False
    begin, handles = time.perf_counter(), []
    for i in range(count):
        prompt = prefix + [rng.randrange(1000, 20000) for _ in range(prompt_tokens)]
        handles.append(pipeline.add_request(i, openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)), config))
    times = [[] for _ in handles]
    while pipeline.has_non_finished_requests():
        pipeline.step()
        now = time.perf_counter() - begin
        for mine, handle in zip(times, handles):
            while handle.can_read():
                mine += [now] * sum(len(output.generated_ids) for output in handle.read().values())
    return times, time.perf_counter() - begin


def main():
    folder, rng = sys.argv[1], random.Random(sys.argv[2])
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size, scheduler.max_num_batched_tokens, scheduler.max_num_seqs = 2, 4096, 64  # its best, by measurement
    scheduler.enable_prefix_caching = True
    begin = time.perf_counter()
    pipeline = openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", {"INFERENCE_NUM_THREADS": 2})
    started = time.perf_counter() - begin
    run(pipeline, rng, 1, 16, 8)
    (alone,), _ = run(pipeline, rng, 1, 512, 128)
    gaps = [b - a for a, b in zip(alone, alone[1:])]
    _, eight = run(pipeline, rng, 8, 128, 64)
    many, all_seconds = run(pipeline, rng, 32, 128, 64)
    _, sharing = run(pipeline, rng, 16, 16, 32, prefix_tokens=512)
    first = [times[0] for times in many]
    print(json.dumps([started, alone[0], 1000 * statistics.median(gaps), 8 * 64 / eight, 32 * 64 / all_seconds,
                      statistics.median(first), max(first), sharing, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000]))


main()
