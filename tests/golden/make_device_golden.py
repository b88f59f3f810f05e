#!/usr/bin/env python3
"""Makes device_models.json: the answers of HF transformers in float32 on the models of tests/worker/cuda/device_models.h, which have sizes
that the CUDA engine serves. Needs: pip install torch transformers.

  make_device_golden.py build/tests/write_device_models [NAME...]   all models, or the named ones, whose entries are replaced

The weights are not stored: the test writes the same files again, and compares their checksum."""
import json
import os
import random
import subprocess
import sys
import tempfile
import zlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, "device_models.json")
LENGTHS, NUM_NEW, TRIES = (1, 37, 70), 8, 40
MARGIN = 5e-4           # least distance of the best log-probability from the second best; in a closer case rounding decides
CACHE_TOLERANCE = 2e-4  # largest difference between log-probabilities with a cache and without


def load(folder):
    config = AutoConfig.from_pretrained(folder)
    config.pad_token_id = None  # a family's own pad token may be beyond so small a vocabulary
    model, told = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager",
                                                       output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not told[kind], f"{folder}: {kind}: {sorted(told[kind])[:5]}"
    return model.eval()


@torch.no_grad()
def rows(model, ids):
    """Returns log-probabilities after every position, computed in one pass, because a cache could drop positions that are still visible."""
    return torch.log_softmax(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double(), -1)


def answer(model, prompt):
    """Returns greedy tokens and their log-probabilities; None where two tokens are about equally likely."""
    tokens, logprobs = [], []
    for _ in range(NUM_NEW):
        best = torch.topk(rows(model, prompt + tokens)[-1], 2)
        if (best.values[0] - best.values[1]).item() <= MARGIN:
            return None
        tokens.append(best.indices[0].item())
        logprobs.append(round(best.values[0].item(), 6))
    whole = rows(model, prompt + tokens)
    for i, (token, logprob) in enumerate(zip(tokens, logprobs)):
        assert abs(whole[len(prompt) - 1 + i][token].item() - logprob) < CACHE_TOLERANCE, (len(prompt), i)
    return {"prompt": prompt, "tokens": tokens, "logprobs": logprobs}


def golden(name, folder):
    weights = os.path.join(folder, "model.safetensors")
    with open(weights, "rb") as f:
        crc32 = zlib.crc32(f.read())
    # HF stores ERNIE's corrections as a row.
    save_file({key: value[None] if key.endswith("moe_statics.e_score_correction_bias") else value for key, value in load_file(weights).items()},
              weights, {"format": "pt"})
    model, rng, cases = load(folder), random.Random(name), []
    for length in LENGTHS:
        for _ in range(TRIES):
            case = answer(model, [rng.randrange(1, model.config.vocab_size) for _ in range(length)])
            if case:
                cases.append(case)
                break
    assert len(cases) == len(LENGTHS), f"near-ties in {len(LENGTHS) - len(cases)} lengths"
    return {"crc32": crc32, "cases": cases}


def main():
    program, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    kept = {}
    if names and os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as f:
            kept = json.load(f)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True)
        for name in names or sorted(os.listdir(folder)):
            try:
                kept[name] = golden(name, os.path.join(folder, name))
                print(name, file=sys.stderr, flush=True)
            except Exception as error:  # the other files are still made; the exit status reports the failure
                failed.append(name)
                print(f"{name}: {type(error).__name__}: {str(error)[:400]}", file=sys.stderr, flush=True)
    with open(PATH, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f'"{name}": ' + json.dumps(kept[name], separators=(",", ":")) for name in sorted(kept)) + "\n}\n")
    sys.exit(1 if failed else 0)


main()
