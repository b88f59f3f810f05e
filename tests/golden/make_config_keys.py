#!/usr/bin/env python3
"""Makes config_keys.json: for each family's tiny model in models/, the effect of changing one key of config.json in HF
transformers. Needs: pip install torch transformers safetensors

  make_config_keys.py [FAMILY...]   all families, or the named ones (by model_type), whose entries are replaced

The keys are those that the family's configuration class declares, those that the sources of this class and of the model
name (fields, arguments, config.NAME, getattr), and those of rope_parameters. For each key, the script tries values
until the model has other weights, or other logits for a prompt longer than the model's window. The JSON has the form

  {"FAMILY": {"model": NAME, "keys": [[KEY, VALUE, "numbers" or "weights" or "same"], ..]}, ..}

where KEY is a name or OBJECT/NAME or rope_parameters/KIND/NAME. "same" means that no tried value made a difference.
Values that HF refuses are left out."""
import contextlib
import copy
import glob
import inspect
import io
import json
import logging
import os
import re
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = f"{HERE}/config_keys.json"
# The model to use for a family that has several: the one in which more keys have an effect.
PREFERRED = {"exaone4": "exaone4", "llama": "gqa", "mistral": "swa", "qwen2": "qwen2", "phi3": "phi3", "falcon": "falcon", "gpt_neox": "neox",
             "stablelm": "stablelm", "qwen2_moe": "qwen2moe", "granitemoehybrid": "granitehybridmoe", "nemotron_h": "nemotronhmoe",
             "gemma4_text": "gemma4moe", "modernbert": "modernbert_classes"}
# Models whose config.json has the keys of published files, which HF's classes do not read.
PUBLISHED = {"nomicbert", "gte", "jinabert"}
# Names in the sources that are not keys of a model's configuration.
NOT_KEYS = {"name_or_path", "to_dict", "from_dict", "get_text_config", "update", "items", "keys", "get", "pop", "copy", "device", "dtype",
            "shape", "model_type", "architectures", "transformers_version", "torch_dtype", "per_layer_config", "layer_type", "id2label",
            "label2id", "num_labels", "problem_type", "return_dict", "output_attentions", "output_hidden_states", "use_return_dict"}
ROPE = {"rope_theta": [123456.0], "partial_rotary_factor": [0.5], "rope_type": ["linear", "dynamic", "yarn", "llama3"], "factor": [3.0],
        "attention_factor": [1.7], "beta_fast": [5.0], "beta_slow": [3.0], "mscale": [0.5], "mscale_all_dim": [0.4], "truncate": [True, False],
        "original_max_position_embeddings": [16], "low_freq_factor": [2.0], "high_freq_factor": [9.0], "llama_4_scaling_beta": [0.9],
        "short_mscale": [1.9], "long_mscale": [1.9], "short_factor": [], "long_factor": [], "mrope_section": [[2, 1, 1]]}
PLAIN = dict(attn_implementation="eager", experts_implementation="eager")  # HF's simplest implementations of attention and experts


def quiet():
    transformers.logging.set_verbosity(logging.CRITICAL)
    return contextlib.redirect_stderr(io.StringIO())


def as_transformers_reads(object):
    """Converts {"__float__": TEXT} to a float. transformers writes numbers without a JSON form, such as infinity, this way."""
    return float(object["__float__"]) if set(object) == {"__float__"} else object


def models():
    """Returns model_type -> (NAME, the contents of config.json)."""
    found = {}
    for path in sorted(glob.glob(f"{HERE}/models/*/config.json")):
        name = os.path.basename(os.path.dirname(path))
        with open(path) as f:
            config = json.load(f, object_hook=as_transformers_reads)
        family = config["model_type"]
        if name in PUBLISHED or name.endswith((".stacked", ".mxfp4")) or (family in found and PREFERRED.get(family, found[family][0]) != name):
            continue
        found[family] = (name, config)
    return found


def keys_of(config, model):
    """Returns the keys of the configuration, and the names that look like keys in the source files of the configuration class and the
    model class."""
    keys = {key for key in config.to_dict()}
    for of in (type(config), type(model)):
        source = inspect.getsource(sys.modules[of.__module__])
        keys |= set(re.findall(r"\bconfig\.([a-z_]\w*)", source)) | set(re.findall(r"getattr\((?:self\.)?(?:config|self), \"(\w+)\"", source))
        keys |= set(re.findall(r"kwargs\.(?:pop|get|setdefault)\(\"(\w+)\"", source))
        keys |= set(re.findall(r"^    (\w+): [^=\n]+=", source, re.M))
    return sorted(key for key in keys if key not in NOT_KEYS and not key.startswith("_"))


def text_of(config):
    """Returns the configuration of the text model, which may be nested in the configuration of a multimodal model."""
    return config.get("text_config", config)


def candidates(key, value, config):
    """Returns the values to try instead of `value`."""
    if isinstance(value, bool):
        return [not value]
    if key in ("layer_types", "layers_block_type") and (value or "num_hidden_layers" in text_of(config)):
        states = {"linear_attention", "conv"} & set(value or [])  # with recurrent layers, all layers become attention layers
        if states:
            return [["full_attention"] * len(value)]
        partial = "chunked_attention" if "chunked_attention" in (value or []) else "sliding_attention"
        flip = {"full_attention": partial, partial: "full_attention"}
        return [[flip[kind] for kind in value]] if value else [["sliding_attention"] * text_of(config)["num_hidden_layers"]]
    if isinstance(value, int):
        return [value + 1, value * 2, max(1, value // 2), 3]
    if isinstance(value, float):
        return [value * 1.5 + 0.25]
    if isinstance(value, str):
        return ["gelu", "relu", "silu"] if "act" in key else [value + "x"]
    if isinstance(value, list):
        return [[x + 1 for x in value]] if value and isinstance(value[0], (int, float)) else [[0], [1]]
    if isinstance(value, dict):
        return []
    return [True, 2, 0.5, 16, 1.5]


def class_of(config):
    """Returns the HF class that runs a model with this configuration: a classifier, an encoder without an output head, or a causal language model."""
    name = config.get("architectures", [""])[0]
    return AutoModelForSequenceClassification if name.endswith("ForSequenceClassification") else AutoModel if name.endswith("Model") else AutoModelForCausalLM


class Probe:
    def __init__(self, name, config):
        self.config = config
        directory = f"{HERE}/models/{name}"
        self.model = class_of(config).from_pretrained(directory, dtype=torch.float32, **PLAIN).eval()
        self.weights = self.model.state_dict()
        # Buffers that are not in the files are not copied, since a changed configuration may change them.
        ids = torch.Generator().manual_seed(1)
        self.prompt = torch.randint(2, text_of(config)["vocab_size"], (1, 45), generator=ids)
        self.logits = self.look(config)

    @torch.no_grad()
    def look(self, config):
        model = class_of(self.config).from_config(CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config)),
                                                 dtype=torch.float32, **PLAIN).eval()
        shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
        if shapes != {name: tensor.shape for name, tensor in self.weights.items()}:
            return None
        model.load_state_dict(self.weights)
        if class_of(self.config) is AutoModelForCausalLM:
            return model(input_ids=self.prompt, use_cache=False).logits
        result = model(input_ids=self.prompt)
        return result.logits if "logits" in result else result.last_hidden_state

    def verdict(self, config):
        logits = self.look(config)
        if logits is None:
            return "weights"
        return "numbers" if not torch.allclose(logits, self.logits, rtol=0, atol=1e-4) else "same"

    def first_that_counts(self, key, values, changed):
        """Returns [key, value, verdict] of the first value with an effect, or otherwise of the first value that HF accepts; None if HF
        accepts none."""
        taken = None
        for value in values:
            try:
                verdict = self.verdict(changed(value))
            except Exception:  # noqa: any value that HF refuses
                continue
            if verdict != "same":
                return [key, value, verdict]
            taken = taken or [key, value, verdict]
        return taken


def ropes_of(config):
    """Returns the paths of the objects with the parameters of rotary embeddings; none without rope_parameters."""
    rope = config.get("rope_parameters")
    if not rope:
        return []
    kinds = [kind for kind in rope if isinstance(rope[kind], dict)]
    return [("rope_parameters", kind) for kind in kinds] or [("rope_parameters",)]


def walk(name, config):
    probe, rows = Probe(name, config), []
    declared = AutoConfig.from_pretrained(f"{HERE}/models/{name}").to_dict()
    for key in keys_of(probe.model.config, probe.model):
        value = config.get(key, declared.get(key))
        rows.append(probe.first_that_counts(key, candidates(key, value, config), lambda new, key=key: {**config, key: new}))
        if not isinstance(value, dict) or key == "rope_parameters":
            continue
        for inner in value:
            values = candidates(inner, value[inner], config)
            change = lambda new, key=key, inner=inner, value=value: {**config, key: {**value, inner: new}}  # noqa: E731
            rows.append(probe.first_that_counts(f"{key}/{inner}", values, change))
    for place in ropes_of(config):
        for key, values in ROPE.items():
            def changed(new, place=place, key=key):
                copied = copy.deepcopy(config)
                rope = copied
                for step in place:
                    rope = rope[step]
                if key == "rope_type" and new == "llama3":
                    rope.update(factor=4.0, original_max_position_embeddings=16, low_freq_factor=1.0, high_freq_factor=4.0)
                rope[key] = new
                return copied
            rope = config
            for step in place:
                rope = rope[step]
            if isinstance(rope.get(key), list):
                values = [[x * 1.5 for x in rope[key]]]
            rows.append(probe.first_that_counts("/".join((*place, key)), values, changed))
    return {"model": name, "keys": [row for row in rows if row]}


def main():
    table = {}
    if os.path.exists(OUT):
        with open(OUT) as f:
            table = json.load(f, object_hook=as_transformers_reads)
    wanted = sys.argv[1:]
    for family, (name, config) in models().items():
        if wanted and family not in wanted:
            continue
        torch.manual_seed(1)
        with quiet():
            table[family] = walk(name, config)
        print(f"{family}: {len(table[family]['keys'])} keys", flush=True)
        with open(OUT, "w") as out:
            lines = (f"{json.dumps(key)}: {json.dumps(table[key], separators=(',', ':'))}" for key in sorted(table))
            out.write(("{" + ",\n".join(lines) + "}\n").replace("Infinity", '{"__float__":"Infinity"}'))


if __name__ == "__main__":
    main()
