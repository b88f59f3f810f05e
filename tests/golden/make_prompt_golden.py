#!/usr/bin/env python3
"""Makes the expected log-probabilities of prompts, with HF transformers in float32, from the models and the prompts of
make_golden.py. Needs the same packages as make_golden.py.

  make_prompt_golden.py tiny            prompt_tiny.json, for MODELS
  make_prompt_golden.py real FILE.gguf  prompt_smollm2.json, for the quickstart model on the same dequantised weights

A case has, for every token of its prompt but the first, the log-probabilities of this token and of the likeliest token.
"""
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
# One model for each kind of output head, norm, window and position.
MODELS = ("mha", "gqa", "mqa", "swa", "gemma2", "qwen3", "granite", "bloom", "cohere", "phi", "gpt2", "olmo2")
MOST_REAL_TOKENS = 4000  # total of all prompts of the quickstart model


def prompts_of(name):
    with open(f"{HERE}/{name}.json") as golden:
        return [case["prompt"] for case in json.load(golden)["cases"]]


@torch.no_grad()
def score(model, ids):
    rows = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, :-1].double(), -1)
    tokens = torch.tensor(ids[1:])
    own = rows.gather(1, tokens.unsqueeze(1)).squeeze(1)
    return dict(prompt=ids, logprobs=[round(x, 5) for x in own.tolist()],
                best=[round(x, 5) for x in rows.max(dim=1).values.tolist()])


def load(directory, **more):
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", **more).eval()


def write(name, models):
    with open(f"{HERE}/{name}.json", "w") as out:
        json.dump(models, out, separators=(",", ":"))
        out.write("\n")


def main():
    if sys.argv[1] == "tiny":
        models = {}
        for name in MODELS:
            model = load(f"{HERE}/models/{name}")
            models[name] = [score(model, ids) for ids in prompts_of(f"tiny_{name}")[::2]]
        return write("prompt_tiny", models)
    path = os.path.abspath(sys.argv[2])
    model = load(os.path.dirname(path), gguf_file=os.path.basename(path))
    cases, tokens = [], 0
    for ids in prompts_of("smollm2"):
        if tokens + len(ids) > MOST_REAL_TOKENS:
            continue
        tokens += len(ids)
        cases.append(score(model, ids))
    write("prompt_smollm2", {"smollm2": cases})


if __name__ == "__main__":
    main()
