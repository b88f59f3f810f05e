#!/usr/bin/env python3
"""Makes random prediction layers (multi-token prediction, MTP) for golden models (mtp/NAME.safetensors, float16), and the greedy drafts
of each layer along the model's own greedy continuation of its prompts (mtp_NAME.json), in float32. HF transformers has the models, but not
these layers: this script writes a layer's own parts, as the DeepSeek-V3 report describes them, and its decoder layer is HF's. Uses
functions of make_golden.py and make_mixture_golden.py. Needs: pip install torch transformers accelerate safetensors

  make_mtp_golden.py [NAME...]

The layer's row at position p joins the embedding of the token at p and the model's hidden state at p - 1, after the final norm. So the
first row is that of position 1. The row of the last token predicts the token after it. For the next row, this draft token replaces the
token, and the layer's own output, after the layer's norm, replaces the hidden state; and so on.

drafts[i] are the draft tokens when tokens[i] is the last token. A list ends early where rounding would decide the next draft."""
import copy
import json
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.glm4_moe import modeling_glm4_moe
from transformers.models.glm4_moe_lite import modeling_glm4_moe_lite
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_next import modeling_qwen3_next

from make_golden import HERE, MARGIN
from make_mixture_golden import ROUTER_MARGIN, RouterMargins, spread_out

NUM_DRAFTS, NUM_TOKENS, PROMPTS = 3, 24, (1, 7, 16, 33, 150)
FAMILIES = {
    "deepseekv3": (modeling_deepseek_v3.DeepseekV3DecoderLayer, modeling_deepseek_v3.DeepseekV3RMSNorm),
    "glm4moe": (modeling_glm4_moe.Glm4MoeDecoderLayer, modeling_glm4_moe.Glm4MoeRMSNorm),
    "glm4moelite": (modeling_glm4_moe_lite.Glm4MoeLiteDecoderLayer, modeling_glm4_moe_lite.Glm4MoeLiteRMSNorm),
    "qwen3next": (modeling_qwen3_next.Qwen3NextDecoderLayer, modeling_qwen3_next.Qwen3NextRMSNorm),
    "qwen35": (modeling_qwen3_5.Qwen3_5DecoderLayer, modeling_qwen3_5.Qwen3_5RMSNorm),
}


class PredictionLayer(nn.Module):
    def __init__(self, name, model):
        super().__init__()
        decoder_layer, norm = FAMILIES[name]
        config = copy.deepcopy(model.config)
        # One layer that attends to all tokens and has a mixture, if the family has mixtures.
        for key, value in (("layer_types", ["full_attention"]), ("mlp_only_layers", []), ("first_k_dense_replace", 0),
                           ("mlp_layer_types", ["sparse"]), ("num_hidden_layers", 1)):
            if hasattr(config, key):
                setattr(config, key, value)
        config._attn_implementation = config._experts_implementation = "eager"
        self.config, self.norms = config, norm
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.token_norm, self.hidden_norm, self.final_norm = (norm(size, eps=epsilon) for _ in range(3))
        self.project = nn.Linear(2 * size, size, bias=False)
        self.layer = decoder_layer(config, layer_idx=0)

    def forward(self, embeddings, hidden, rotary):
        """Returns the outputs, after the norm, of rows at the positions from 1 on."""
        x = self.project(torch.cat([self.token_norm(embeddings), self.hidden_norm(hidden)], -1))[None]
        positions = torch.arange(1, x.shape[1] + 1)[None]
        mask = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min).triu(1)[None, None]
        out = self.layer(x, position_embeddings=rotary(x, positions), attention_mask=mask, position_ids=positions)
        return self.final_norm(out[0] if isinstance(out, tuple) else out)[0]


def decoder_tensors(layer):
    """Yields the decoder layer's tensors under their names in published files, where each expert has its own."""
    for name, tensor in layer.state_dict().items():
        if name == "mlp.experts.gate_up_proj":
            for expert, (gate, up) in enumerate(t.chunk(2) for t in tensor):
                yield f"mlp.experts.{expert}.gate_proj.weight", gate
                yield f"mlp.experts.{expert}.up_proj.weight", up
        elif name == "mlp.experts.down_proj":
            for expert, down in enumerate(tensor):
                yield f"mlp.experts.{expert}.down_proj.weight", down
        else:
            yield name, tensor


def save(name, model, layer):
    if name.startswith("qwen"):
        begin, names = "mtp.layers.0.", ("mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm")
    else:
        begin = f"model.layers.{model.config.num_hidden_layers}."
        names = [begin + part for part in ("enorm", "hnorm", "eh_proj", "shared_head.norm")]
    parts = (layer.token_norm, layer.hidden_norm, layer.project, layer.final_norm)
    tensors = {f"{part}.weight": module.weight for part, module in zip(names, parts)}
    tensors |= {begin + part: tensor for part, tensor in decoder_tensors(layer.layer)}
    if name == "deepseekv3":  # published files have these copies
        tensors[begin + "embed_tokens.weight"] = model.get_input_embeddings().weight
        tensors[begin + "shared_head.head.weight"] = model.lm_head.weight
    tensors = {key: tensor.detach().to(torch.float16).contiguous().clone() for key, tensor in tensors.items()}
    save_file(tensors, f"{HERE}/mtp/{name}.safetensors", metadata=dict(format="pt"))


def drafts_after(model, layer, tokens, hidden):
    """Returns the drafts after `tokens`. `hidden`: the model's hidden states of all these tokens but the last."""
    embed, rows = model.get_input_embeddings(), hidden
    ids, drafts = torch.tensor(tokens[1:]), []
    while len(drafts) < NUM_DRAFTS:
        out = layer(embed(ids), rows, model.model.rotary_emb)
        logits = model.lm_head(out[-1])
        best = torch.topk(logits, 2)
        if best.values[0] - best.values[1] <= MARGIN:
            break
        drafts.append(best.indices[0].item())
        ids, rows = torch.cat([ids, best.indices[:1]]), torch.cat([rows, out[-1:]])
    return drafts


@torch.no_grad()
def make(name):
    torch.manual_seed(len(name))
    model = AutoModelForCausalLM.from_pretrained(f"{HERE}/models/{name}", dtype=torch.float32, attn_implementation="eager").eval()
    layer = PredictionLayer(name, model).eval()
    spread_out(layer)
    layer.half().float()
    save(name, model, layer)
    with open(f"{HERE}/tiny_{name}.json") as f:
        known = json.load(f)["cases"]
    margins, cases = RouterMargins(layer), []
    for length in PROMPTS:
        case = next((c for c in known if len(c["prompt"]) == length), None)
        if case is None:
            continue
        prompt, tokens = case["prompt"], case["tokens"][:NUM_TOKENS]
        hidden = model.model(input_ids=torch.tensor([prompt + tokens]), use_cache=False).last_hidden_state[0]
        margins.least = float("inf")
        drafts = [drafts_after(model, layer, prompt + tokens[:i + 1], hidden[:len(prompt) + i]) for i in range(len(tokens))]
        if margins.least > ROUTER_MARGIN:
            cases.append(dict(prompt=prompt, tokens=tokens, drafts=drafts))
    print(f"{name}: {len(cases)} of {len(PROMPTS)} prompts, {sum(len(d) for c in cases for d in c['drafts'])} drafts", file=sys.stderr)
    with open(f"{HERE}/mtp_{name}.json", "w") as out:
        json.dump({"cases": cases}, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or FAMILIES:
        make(name)
