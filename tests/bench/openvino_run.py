#!/usr/bin/env python3
"""Runs the loads of peers.py in OpenVINO GenAI, in this process, without HTTP. peers.py --openvino starts this script
with an interpreter that has openvino-genai. Prints the measurements as JSON, by title.

  openvino_run.py DIR SEED LOAD..."""
import json
import os
import sys
import time

import numpy
import openvino
import openvino_genai

import workloads


def at_once(pipeline, prompts, tokens):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = tokens
    config.ignore_eos, config.do_sample = True, False
    begin = time.perf_counter()
    handles = [pipeline.add_request(i, openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)), config)
               for i, prompt in enumerate(prompts)]
    times = [[] for _ in handles]
    while pipeline.has_non_finished_requests():
        pipeline.step()
        now = time.perf_counter() - begin
        for mine, handle in zip(times, handles):
            while handle.can_read():
                mine += [now] * sum(len(output.generated_ids) for output in handle.read().values())
    return times, time.perf_counter() - begin


def main():
    folder, seed, *loads = sys.argv[1:]
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens, scheduler.max_num_seqs = 4096, 64  # the best values by measurement
    scheduler.num_kv_blocks = workloads.POOL_TOKENS // 32  # blocks of its CPU plugin
    scheduler.enable_prefix_caching = True
    begin = time.perf_counter()
    pipeline = openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", {"INFERENCE_NUM_THREADS": 2})
    started = time.perf_counter() - begin
    found = workloads.measure(lambda prompts, tokens: at_once(pipeline, prompts, tokens), loads, seed)
    print(json.dumps({workloads.START: started, **found, workloads.MEMORY: workloads.resident(os.getpid())}))


main()
