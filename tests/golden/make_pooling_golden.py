#!/usr/bin/env python3
"""Makes the expected vectors of pooled prompts, with HF transformers in float32, from the models and some of the
prompts of make_golden.py. Needs the same packages as make_golden.py.

  make_pooling_golden.py   pooled_tiny.json, for MODELS

A case has a prompt and three vectors from its last hidden states (after the final norm, not normalised): the last
token's state, the mean over all tokens, and the first token's state."""
import json
import os

import torch
from transformers import AutoModel

HERE = os.path.dirname(os.path.abspath(__file__))
# Qwen3 is the base of embedding models; "linear" has a tokenizer; the others vary norms, windows, and heads that ranks cannot share.
MODELS = ("qwen3", "linear", "swa", "gemma2", "gpt2", "mqa")
MOST_CASES = 5


@torch.no_grad()
def pool(model, ids):
    states = model(input_ids=torch.tensor([ids])).last_hidden_state[0].double()
    vectors = dict(last=states[-1], mean=states.mean(dim=0), cls=states[0])
    return dict(prompt=ids, **{name: [round(x, 5) for x in vector.tolist()] for name, vector in vectors.items()})


def main():
    models = {}
    for name in MODELS:
        model = AutoModel.from_pretrained(f"{HERE}/models/{name}", dtype=torch.float32, attn_implementation="eager").eval()
        with open(f"{HERE}/tiny_{name}.json") as golden:
            prompts = [case["prompt"] for case in json.load(golden)["cases"]]
        prompts = sorted(prompts, key=len)[::max(1, len(prompts) // MOST_CASES)]
        models[name] = [pool(model, ids) for ids in [prompts[-1][:1], *prompts[-MOST_CASES:]]]
    with open(f"{HERE}/pooled_tiny.json", "w") as out:
        json.dump(models, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
