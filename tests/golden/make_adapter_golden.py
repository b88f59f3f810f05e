#!/usr/bin/env python3
"""Makes LoRA adapters for the small models of models/, with PEFT, and the greedy tokens and log-probabilities that HF transformers expects
with each of them, in float32. Writes adapters/ and adapters.json, and adapter_formats.json for the adapters of FORMATS, which change parts
of a model that few adapters change. Needs: pip install torch transformers peft safetensors.

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
from make_hybrid_golden import Uncached

LENGTHS = [3, 17, 40, 90]  # of prompts, in tokens
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]

# Each adapter: its base model, and the settings of its LoraConfig.
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

EXPERTS = ["experts.gate_up_proj", "experts.down_proj"]
# Adapters of embeddings, heads, routers, experts, layers with a recurrent state and layer inputs. Keys of their own:
#   replaced: how much modules_to_save and trainable tokens differ from the base
#   apart: modules by their names in older versions of HF, of which PEFT makes stacked ones
FORMATS = {
    "gqa_tables": dict(base="gqa", r=4, lora_alpha=8, target_modules=["q_proj", "embed_tokens", "lm_head"]),
    "gqa_saved": dict(base="gqa", r=2, lora_alpha=4, target_modules=["o_proj"], modules_to_save=["embed_tokens", "lm_head"]),
    "gqa_tokens": dict(base="gqa", r=2, lora_alpha=4, target_modules=["v_proj"],
                       trainable_token_indices={"embed_tokens": [7, 3, 200], "lm_head": list(range(0, 250, 3))}),
    "gqa_rank128": dict(base="gqa", r=128, lora_alpha=32, target_modules=["q_proj", "down_proj"], use_rslora=True),
    "gqa_rank1": dict(base="gqa", r=1, lora_alpha=1, target_modules=r".*layers\.[02]\..*(k|gate)_proj"),
    "linear_all": dict(base="linear", r=4, lora_alpha=8, target_modules=ATTENTION + ["gate_proj", "up_proj", "down_proj",
                                                                                   "embed_tokens", "lm_head"]),
    "qwen3moe_tied": dict(base="qwen3moe", r=3, lora_alpha=6, target_modules=["q_proj", "embed_tokens", "lm_head"],
                          ensure_weight_tying=True),
    "qwen3moe_tokens": dict(base="qwen3moe", r=2, lora_alpha=4, target_modules=["q_proj"],
                            trainable_token_indices=list(range(1, 139, 4))),
    "qwen3moe_head": dict(base="qwen3moe", r=2, lora_alpha=4, target_modules=["k_proj"], modules_to_save=["lm_head"]),
    "qwen3moe_experts": dict(base="qwen3moe", r=3, lora_alpha=6, target_modules=["k_proj"],
                             target_parameters=["mlp.gate.weight"] + EXPERTS,
                             rank_pattern={"experts.down_proj": 2, "gate.weight": 1}, alpha_pattern={"gate_up_proj": 9}),
    "qwen3moe_downs": dict(base="qwen3moe", r=2, lora_alpha=4, target_modules=[], target_parameters=["experts.down_proj"]),
    "qwen3moe_all": dict(base="qwen3moe", r=2, lora_alpha=4, target_modules="all-linear"),
    "qwen3moe_apart": dict(base="qwen3moe", r=2, lora_alpha=4, target_modules=["o_proj", "gate_proj", "up_proj", "down_proj"],
                           apart="model.layers.{}.mlp.experts.{}.{}"),
    "mixtral_all": dict(base="mixtral", r=2, lora_alpha=4, target_modules=["q_proj", "gate", "w1", "w2", "w3"]),
    "gptoss_experts": dict(base="gptoss", r=2, lora_alpha=4, target_modules=["q_proj"],
                           target_parameters=["router.weight"] + EXPERTS),
    "qwen35_all": dict(base="qwen35", r=2, lora_alpha=4, target_modules="all-linear"),
    "qwen35moe_all": dict(base="qwen35moe", r=2, lora_alpha=4, target_modules=ATTENTION + [
        "in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj", "shared_expert_gate", "gate_proj", "up_proj",
        "down_proj"], target_parameters=EXPERTS + ["mlp.gate.weight"]),
    "lfm2moe_all": dict(base="lfm2moe", r=2, lora_alpha=4, target_modules=ATTENTION[:3] + ["in_proj", "out_proj", "w1", "w2", "w3"],
                        target_parameters=EXPERTS + ["feed_forward.gate.weight"]),
    "nemotronhmoe_all": dict(base="nemotronhmoe", r=2, lora_alpha=4, target_modules=["in_proj", "q_proj", "up_proj", "down_proj"],
                             target_parameters=["experts.up_proj", "experts.down_proj", "mixer.gate.weight"]),
    "granitehybridmoe_all": dict(base="granitehybridmoe", r=2, lora_alpha=4, target_modules=["in_proj", "input_linear", "output_linear"],
                                 target_parameters=EXPERTS + ["router.weight"]),
    "falconh1_all": dict(base="falconh1", r=2, lora_alpha=4, target_modules=ATTENTION + [  # PEFT adapts no out_proj of Mamba-2
        "in_proj", "gate_proj", "up_proj", "down_proj"]),
    "bamba_all": dict(base="bamba", r=2, lora_alpha=4, target_modules="all-linear"),
    "gemma4_all": dict(base="gemma4", r=2, lora_alpha=4, target_modules=["q_proj", "gate_proj", "per_layer_input_gate", "per_layer_projection",
                                                                         "per_layer_model_projection", "embed_tokens"]),
    "gemma4moe_all": dict(base="gemma4moe", r=2, lora_alpha=4, target_modules=["o_proj", "down_proj", "proj"],
                          target_parameters=EXPERTS),
    "phimoe_all": dict(base="phimoe", r=2, lora_alpha=4, target_modules=["q_proj"], target_parameters=EXPERTS + ["router.weight"]),
    "erniemoe_all": dict(base="erniemoe", r=2, lora_alpha=4, target_modules="all-linear", target_parameters=EXPERTS + ["gate.weight"]),
}


def open_base(name):
    return AutoModelForCausalLM.from_pretrained(f"{HERE}/models/{name}", dtype=torch.float32, attn_implementation="eager",
                                                experts_implementation="eager").eval()


@torch.no_grad()
def difference(one, other, ids):
    """Returns the largest difference between two models' log-probabilities of the token after a text."""
    rows = [torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, -1].double(), -1) for model in (one, other)]
    return (rows[0] - rows[1]).abs().max().item()


@torch.no_grad()
def save_random(base, settings, directory):
    """Saves an adapter with random numbers instead of PEFT's initial numbers, with which the adapter changes nothing."""
    model = get_peft_model(open_base(base), LoraConfig(task_type="CAUSAL_LM", **settings))
    for key, parameter in model.named_parameters():
        if "lora_B" in key:
            parameter += 0.15 * torch.randn_like(parameter)
        elif "lora_embedding_A" in key:
            parameter += 0.3 * torch.randn_like(parameter)
        elif "modules_to_save" in key or "trainable_tokens_delta" in key:
            parameter += 0.2 * parameter.std() * torch.randn_like(parameter)
    model.save_pretrained(directory)
    os.remove(f"{directory}/README.md")


def save_apart(base, settings, directory, names):
    """Saves an adapter of experts as older versions of HF did, with separate matrices for each expert. The adapter also changes o_proj of
    every layer."""
    config = AutoModelForCausalLM.from_pretrained(f"{HERE}/models/{base}").config
    hidden, columns, rank, tensors = config.hidden_size, config.moe_intermediate_size, settings["r"], {}
    for layer in range(config.num_hidden_layers):
        for expert in range(config.num_experts):
            for module in ("gate_proj", "up_proj", "down_proj"):
                rows, cols = (hidden, columns) if module == "down_proj" else (columns, hidden)
                name = "base_model.model." + names.format(layer, expert, module)
                tensors[name + ".lora_A.weight"] = torch.randn(rank, cols) / cols**0.5
                tensors[name + ".lora_B.weight"] = 0.4 * torch.randn(rows, rank)
        heads = config.num_attention_heads * config.head_dim
        name = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        tensors[name + ".lora_A.weight"] = torch.randn(rank, heads) / heads**0.5
        tensors[name + ".lora_B.weight"] = 0.15 * torch.randn(hidden, rank)
    os.makedirs(directory)
    save_file(tensors, f"{directory}/adapter_model.safetensors")
    LoraConfig(task_type="CAUSAL_LM", inference_mode=True, **settings).save_pretrained(directory)


def make(name):
    settings = dict({**ADAPTERS, **FORMATS}[name])
    base, apart = settings.pop("base"), settings.pop("apart", None)
    torch.manual_seed(len(name) + settings["r"])
    directory = f"{HERE}/adapters/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    if apart is None:
        save_random(base, settings, directory)
    else:
        save_apart(base, settings, directory, apart)
    path = f"{directory}/adapter_model.safetensors"
    dtype = torch.float32 if base == "gpt2" else torch.bfloat16 if base == "qwen2" else torch.float16
    save_file({key: tensor.to(dtype) for key, tensor in load_file(path).items()}, path)
    config_path = f"{directory}/adapter_config.json"
    with open(config_path) as file:
        config = json.load(file)
    config["base_model_name_or_path"] = base  # not a path of this machine
    for key in ("target_modules", "exclude_modules", "target_parameters"):  # PEFT writes sets in any order
        if isinstance(config.get(key), list):
            config[key].sort()
    with open(config_path, "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")

    plain = open_base(base)
    adapted = PeftModel.from_pretrained(open_base(base), directory).eval()
    rng = random.Random(name)
    vocabulary = plain.config.get_text_config().vocab_size
    cases = []
    make_golden.NUM_NEW = 12 if name in FORMATS else 32
    for length in LENGTHS[1:3] if name in FORMATS else LENGTHS:
        for _ in range(8):
            ids = [rng.randrange(2, vocabulary) for _ in range(length)]
            tokens, logprobs, margin = continue_greedily(Uncached(adapted) if name in FORMATS else adapted, ids)
            if margin <= MARGIN:
                continue
            check_without_cache(adapted, ids, tokens, logprobs)
            assert difference(plain, adapted, ids + tokens) > 0.05, "the adapter changes too little to be noticed"
            cases.append(dict(prompt=ids, tokens=tokens, logprobs=logprobs))
            break
    print(f"{name}: {len(cases)} cases of {[len(case['prompt']) for case in cases]} tokens", flush=True)
    return dict(base=base, cases=cases)


if __name__ == "__main__":
    for file_name, adapters in (("adapters", ADAPTERS), ("adapter_formats", FORMATS)):
        path = f"{HERE}/{file_name}.json"
        known = json.load(open(path)) if os.path.exists(path) else {}
        for name in sys.argv[1:] or adapters:
            if name not in adapters:
                continue
            known[name] = make(name)
            with open(path, "w") as out:
                json.dump(dict(sorted(known.items())), out, separators=(",", ":"))
                out.write("\n")
