#!/usr/bin/env python3
"""Makes published_files.json: what stands in the files of published models, shrunk to facts: configurations without keys that change
nothing, what tokenizer_config.json says (of chat templates: whether there is one), and names of tensors as patterns with ranges of numbers. Usage: make_published_files.py CLONES. CLONES is a folder with a clone
of each repository below, as OWNER+NAME/repo. These public repositories hold copies of models' small files."""
import json
import os
import re
import subprocess
import sys

MODELS = [
    ("gpt-oss-20b", "EchoCog/gpt-oss-20b"),
    ("Phi-3-mini-128k-instruct", "ChuDinhKlopp/phi-3-mini-keyformer"),
    ("falcon-180B-chat", "Alikhan13r/falcon-180B-chat"),
    ("OPT-13B-Erebus", "Harryshaft8/https-huggingface.co-KoboldAI-OPT-6.7B-Erebus"),
    ("cogito-v1-preview-qwen-14B", "fetchwiki/deepcogito-cogito-v1-preview-qwen-14B"),
    ("olmOCR-7B-0225-preview", "BrianYAU-NTEC/olmOCR"),
    ("Llama-2-7b-hf", "HamZil/Llama-2-7b-hf"),
    ("dolphin-2.5-mixtral-8x7b", "JakobJohannesson/mixtral_dolphin_v2.5"),
    ("falcon-40b", "Decentralised-AI/falcon-40b"),
    ("DeepSeek-R1-Distill-Qwen-32B", "Evilcarbon/DeepSeek-R1-Distill-Qwen-32B"),
    ("medgemma-27b-it", "Ibtasam-98/medgemma-27b-it"),
    ("Llama-3.2-3B", "PANDASANG1231/llama_3.2-3B-huggingface-shard0"),
    ("bloom", "amansingh61/bloom"),
    ("gemma-2b-it", "ananddhanabal/gemma"),
    ("granite-3b-code-instruct-128k", "ashishn-08/granite-3b-code-instruct-128k"),
    ("Qwen3.5-25B-REAP-A3B-Coding", "bryce-hoehn/Qwen3.5-25B-REAP-A3B-Coding"),
    ("Devstral-Small-2507", "fetchwiki/mistralai-Devstral-Small-2507"),
    ("granite-3.1-1b-a400m-instruct", "jeremieconte/granite-3.1-1b-a400m-instruct"),
    ("Qwen3-1.7B", "root-hypercube/qwen3-mlx"),
    ("WizardLM-2-8x22B", "tbressers/WizardLM-2-8x22B"),
]
REFUSED = {"falcon-40b": 'architecture "RefinedWeb" is not supported', "granite-3b-code-instruct-128k": "attention_bias = true is not supported"}
UNUSED = {"_name_or_path", "auto_map", "transformers_version", "torch_dtype", "dtype", "use_cache", "welcome", "prefix"}
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")
TOKENIZER = ("tokenizer_class", "add_bos_token", "add_eos_token", "add_prefix_space", "model_max_length", *TOKENS)
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def git(clone, *words):
    done = subprocess.run(["git", "--git-dir=" + clone, *words], capture_output=True)
    return done.stdout.decode() if done.returncode == 0 else ""


def ranges(numbers):
    """Returns [first, last] of every run of neighbours."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def facts(config):
    """Returns a configuration without the keys that change nothing. Of the vision part only the type is kept."""
    kept = {}
    for key, value in config.items():
        if key == "vision_config":
            kept[key] = {"model_type": value.get("model_type")}
        elif key not in UNUSED:
            kept[key] = facts(value) if isinstance(value, dict) else value
    return kept


def tokenizer_facts(config):
    kept = {key: config[key] for key in TOKENIZER if key in config}
    added = [int(token) for token in config.get("added_tokens_decoder", {})]
    if added:
        kept["largest_added_token"] = max(added)
    kept["has_chat_template"] = "chat_template" in config
    return kept


def patterns(names):
    """Returns the names with {} for numbers, and for each {} its ranges. Of tensors that are left out, one of each kind is kept."""
    numbers = {}
    for name in names:
        numbers.setdefault(NUMBER.sub("{}", name), set()).add(tuple(map(int, NUMBER.findall(name))))
    found = {}
    for pattern, tuples in sorted(numbers.items()):
        axes = [ranges(set(axis)) for axis in zip(*tuples)]
        if re.match(r"(model\.)?(vision|visual|multi_modal)", pattern):
            axes = [[[axis[0][0], axis[0][0]]] for axis in axes]
        else:
            size = 1
            for axis in axes:
                size *= sum(last - first + 1 for first, last in axis)
            assert size == len(tuples), pattern
        found[pattern] = axes
    return found


def row(clones, name, repository):
    clone = os.path.join(clones, repository.replace("/", "+"), "repo")
    commit = git(clone, "rev-parse", "HEAD")[:12]
    made = {"name": name, "source": f"the files in the GitHub repository {repository} at {commit}", "config": facts(json.loads(git(clone, "show", "HEAD:config.json")))}
    try:
        made["tokenizer"] = tokenizer_facts(json.loads(git(clone, "show", "HEAD:tokenizer_config.json")))
    except ValueError:
        pass
    for index in INDEXES:
        try:
            names = json.loads(git(clone, "show", "HEAD:" + index))["weight_map"]
        except ValueError:  # the repository has no such file, or damaged it
            continue
        if "quantization_config" not in made["config"]:
            made["tensors"] = patterns(names)
            if index != INDEXES[0]:
                made["source"] += " (names of the .bin files)"
            break
    if name.startswith("Qwen3.5"):  # fewer experts: their names are alike
        made["config"]["num_experts"] = 8
        for pattern, axes in made["tensors"].items():
            if ".experts.{}" in pattern:
                axes[1] = [[0, 7]]
    if name in REFUSED:
        made["refused"] = REFUSED[name]
    return made


if __name__ == "__main__":
    rows = [row(sys.argv[1], *model) for model in MODELS]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "published_files.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(" " + json.dumps(one) for one in rows) + "\n]\n")
