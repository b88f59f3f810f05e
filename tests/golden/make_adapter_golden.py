#!/usr/bin/env python3
"""Makes LoRA adapters for the small models of models/, with PEFT, and the greedy tokens and log-probabilities that HF
transformers expects with each of them, in float32: adapters/ and adapters.json.
Needs: pip install torch transformers peft safetensors.

  make_adapter_golden.py [NAME...]   all adapters, or the named ones"""
import json
import os
import random
import shutil
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import make_golden
from make_golden import HERE, MARGIN, check_without_cache, continue_greedily

make_golden.NUM_NEW = 32
LENGTHS = [3, 17, 40, 90]  # of prompts, in tokens
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]

# Each adapter: its base, and what its LoraConfig says.
ADAPTERS = {
    "gqa_all": dict(base="gqa", r=8, lora_alpha=16, target_modules="all-linear"),
    "gqa_patterns": dict(base="gqa", r=4, lora_alpha=6, use_rslora=True,
                         target_modules=r".*\.(self_attn\.[qko]|mlp\.(up|down))_proj",
                         rank_pattern={"q_proj": 6, r"layers\.1\.mlp\.down_proj": 2},
                         alpha_pattern={"^model.layers.0.self_attn.o_proj": 3, "up_proj": 9}),
    "gqa_layers": dict(base="gqa", r=40, lora_alpha=40, target_modules=["q_proj", "v_proj", "gate_proj"],
                       layers_to_transform=[0, 2], layers_pattern="layers",
                       exclude_modules=["model.layers.2.self_attn.v_proj"]),
    "qwen2_all": dict(base="qwen2", r=3, lora_alpha=8, target_modules="all-linear"),
    "phi3_fused": dict(base="phi3", r=8, lora_alpha=12, target_modules="all-linear"),
    "gpt2_turned": dict(base="gpt2", r=5, lora_alpha=10, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
    "neox_by_head": dict(base="neox", r=4, lora_alpha=8, target_modules="all-linear"),
    "falcon_by_kv_head": dict(base="falcon_new", r=4, lora_alpha=8, target_modules="all-linear"),
    "cohere_interleaved": dict(base="cohere", r=4, lora_alpha=8, target_modules="all-linear"),
    "gemma2_norms": dict(base="gemma2", r=4, lora_alpha=32, target_modules="all-linear"),
    "qwen35_gates": dict(base="qwen35", r=4, lora_alpha=8, target_modules=ATTENTION + ["gate_proj", "up_proj", "down_proj"]),
    "qwen3moe_attention": dict(base="qwen3moe", r=8, lora_alpha=16, target_modules=ATTENTION),
}


def open_base(name):
    return AutoModelForCausalLM.from_pretrained(f"{HERE}/models/{name}", dtype=torch.float32,
                                                attn_implementation="eager").eval()


@torch.no_grad()
def difference(one, other, ids):
    """The largest difference of log-probabilities at the end of a text."""
    rows = [torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, -1].double(), -1) for model in (one, other)]
    return (rows[0] - rows[1]).abs().max().item()


def make(name):
    settings = dict(ADAPTERS[name])
    base = settings.pop("base")
    torch.manual_seed(len(name) + settings["r"])
    directory = f"{HERE}/adapters/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    model = get_peft_model(open_base(base), LoraConfig(task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_B" in key:  # PEFT starts with zeros, which change nothing
                parameter += 0.15 * torch.randn_like(parameter)
    model.save_pretrained(directory)
    os.remove(f"{directory}/README.md")
    path = f"{directory}/adapter_model.safetensors"
    dtype = torch.float32 if base == "gpt2" else torch.bfloat16 if base == "qwen2" else torch.float16
    save_file({key: tensor.to(dtype) for key, tensor in load_file(path).items()}, path)
    config_path = f"{directory}/adapter_config.json"
    with open(config_path) as file:
        config = json.load(file)
    config["base_model_name_or_path"] = base  # not a path of this machine
    for key in ("target_modules", "exclude_modules"):  # PEFT writes sets in any order
        if isinstance(config[key], list):
            config[key].sort()
    with open(config_path, "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")

    plain = open_base(base)
    adapted = PeftModel.from_pretrained(open_base(base), directory).eval()
    rng = random.Random(name)
    vocabulary = plain.config.get_text_config().vocab_size
    cases = []
    for length in LENGTHS:
        for _ in range(4):
            ids = [rng.randrange(2, vocabulary) for _ in range(length)]
            tokens, logprobs, margin = continue_greedily(adapted, ids)
            if margin <= MARGIN:
                continue
            check_without_cache(adapted, ids, tokens, logprobs)
            assert difference(plain, adapted, ids + tokens) > 0.05, "the adapter changes too little to be noticed"
            cases.append(dict(prompt=ids, tokens=tokens, logprobs=logprobs))
            break
    print(f"{name}: {len(cases)} cases of {[len(case['prompt']) for case in cases]} tokens", flush=True)
    return dict(base=base, cases=cases)


if __name__ == "__main__":
    path = f"{HERE}/adapters.json"
    known = json.load(open(path)) if os.path.exists(path) else {}
    for name in sys.argv[1:] or ADAPTERS:
        known[name] = make(name)
        with open(path, "w") as out:
            json.dump(dict(sorted(known.items())), out, separators=(",", ":"))
            out.write("\n")
