#!/usr/bin/env python3
"""Makes a random Llama in the published forms of quantised models (models/NAME, safetensors), and the continuations of
prompts by HF transformers in float32 on the dequantised weights (tiny_NAME.json). This script packs GPTQ, AWQ and
ModelOpt's formats by their published layouts. The packages compressed-tensors and bitsandbytes pack and dequantise their
own formats. Needs: pip install torch transformers accelerate safetensors compressed-tensors bitsandbytes

  make_quantized_golden.py [NAME...]

The engine rounds dequantised weights to float16, which moves log-probabilities of such a model by 0.0025. Rounding the
minima of forms with zero points moves them by 0.009. A prompt is used only if its best tokens lead by more than MARGIN
(MARGIN_OF_MINIMA with zero points)."""
import json
import os
import random
import sys

import bitsandbytes.functional as bnb
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig

import make_golden
from make_golden import HERE, LENGTHS, expectations, write

MARGIN, MARGIN_OF_MINIMA = 4e-3, 1e-2

# Heads have 16 numbers. The attention's output has blocks of 32 columns: three ranks get whole blocks, two ranks cut a block.
SHAPE = dict(hidden_size=96, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3, head_dim=16, intermediate_size=96,
             vocab_size=131, tie_word_embeddings=False, max_position_embeddings=2048, initializer_range=0.1, bos_token_id=0,
             eos_token_id=1)
GPTQ = dict(quant_method="gptq", bits=4, group_size=32, desc_act=False, sym=True, checkpoint_format="gptq")
FP8 = dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", modules_to_not_convert=["lm_head"])
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(codes, bits, order=None):
    """Packs codes [.., n] into int32 [.., n * bits / 32]. The first code of a word has the lowest bits; `order` first reorders the codes
    of each word."""
    per_word = 32 // bits
    grouped = codes.reshape(*codes.shape[:-1], -1, per_word).to(torch.int64)
    if order:
        grouped = grouped[..., order]
    packed = (grouped << (torch.arange(per_word) * bits)).sum(-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def quantize(weight, bits, group_of, symmetric):
    """Quantises a matrix. group_of: the group of each column. Returns codes [rows, cols], zero points and scales [rows, groups]."""
    most, groups = 2**bits - 1, int(group_of.max()) + 1
    scales, zeros = torch.empty(len(weight), groups), torch.empty(len(weight), groups)
    for g in range(groups):
        columns = weight[:, group_of == g]
        high, low = columns.amax(1).clamp(min=0), columns.amin(1).clamp(max=0)
        if symmetric:
            high = torch.maximum(high, -low)
            low = -high
        scales[:, g] = ((high - low) / most).half().float()
        zeros[:, g] = (most + 1) / 2 if symmetric else (-low / scales[:, g]).round().clamp(1, most)
    codes = (weight / scales[:, group_of] + zeros[:, group_of]).round().clamp(0, most)
    return codes.to(torch.int64), zeros.to(torch.int64), scales


def gptq(config, module, weight):
    """Packs a matrix as GPTQ. With desc_act, the columns of a group are scattered, as real quantisers leave them."""
    cols, bits = weight.shape[1], config["bits"]
    group = cols if config["group_size"] == -1 else config["group_size"]
    group_of = torch.arange(cols) // group
    if config["desc_act"]:
        group_of = group_of[torch.randperm(cols)]
    codes, zeros, scales = quantize(weight, bits, group_of, config["sym"])
    stored = zeros - int(config["checkpoint_format"] == "gptq")
    parts = dict(qweight=words(codes, bits).T, qzeros=words(stored.T, bits), scales=scales.T.half(), g_idx=group_of.to(torch.int32))
    if module.endswith("o_proj"):
        parts["bias"] = torch.zeros(len(weight), dtype=torch.float16)  # some writers add a zero bias where the model has none
    return parts, (codes - zeros[:, group_of]) * scales[:, group_of]


def awq(config, module, weight):
    group_of = torch.arange(weight.shape[1]) // config["group_size"]
    codes, zeros, scales = quantize(weight, 4, group_of, False)
    parts = dict(qweight=words(codes.T, 4, AWQ_ORDER), qzeros=words(zeros.T, 4, AWQ_ORDER), scales=scales.T.half())
    return parts, (codes - zeros[:, group_of]) * scales[:, group_of]


def fp8(config, module, weight):
    """Packs a matrix as FP8, with weight_scale_inv per block, or with one weight_scale and a scale of activations."""
    most, size = torch.finfo(torch.float8_e4m3fn).max, config.get("weight_block_size")
    if size is None:
        scale = (weight.abs().max() / most).reshape(1)
        spread = scale.expand_as(weight)
        parts = dict(weight_scale=scale, input_scale=torch.tensor([0.25]))
    else:
        rows, cols = weight.shape
        counts = [-(-n // s) for n, s in zip(weight.shape, size)]
        padded = torch.zeros(counts[0] * size[0], counts[1] * size[1])
        padded[:rows, :cols] = weight
        scale = padded.reshape(counts[0], size[0], counts[1], size[1]).abs().amax((1, 3)) / most
        spread = scale.repeat_interleave(size[0], 0).repeat_interleave(size[1], 1)[:rows, :cols]
        parts = dict(weight_scale_inv=scale)
    parts["weight"] = (weight / spread).to(torch.float8_e4m3fn)
    return parts, parts["weight"].float() * spread


def compressed(form, args_of):
    """Returns a function that packs by compressed-tensors' compressor. args_of: gives the quantisation arguments of a module."""
    def make(config, module, weight):
        args = QuantizationArgs(**args_of(module))
        compressor = BaseCompressor.get_value_from_registry(form)
        groups = weight.shape[1] // args.group_size if args.group_size and args.group_size > 0 else 1
        columns = weight.reshape(len(weight), groups, -1)
        if args.type == "float":
            scale, zero = columns.abs().amax(2) / 448, None
        elif args.symmetric:
            scale, zero = columns.abs().amax(2) / (2**(args.num_bits - 1) - 0.5), None
        else:
            low, high = columns.amin(2).clamp(max=0), columns.amax(2).clamp(min=0)
            scale = (high - low) / (2**args.num_bits - 1)
            zero = (-(low / scale).round() - 2**(args.num_bits - 1)).to(torch.int8)
        scale = scale.to(torch.bfloat16).float()
        state = dict(weight=weight, weight_scale=scale)
        if zero is not None:
            state["weight_zero_point"] = zero
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        parts = compressor.compress(state, scheme)
        plain = compressor.decompress(dict(parts), scheme)["weight"].float()
        parts["weight_scale"] = parts["weight_scale"].to(torch.bfloat16)
        return {name: part for name, part in parts.items() if part is not None}, plain
    return make


def packed_args(module):
    usual = dict(type="int", num_bits=4, strategy="group", group_size=32, symmetric=True)
    if module == "lm_head":  # lm_head's 131 rows do not fill whole words of zero points
        return dict(type="int", num_bits=8, strategy="channel", symmetric=False)
    if "mlp" in module:
        return usual | dict(symmetric=False)
    return usual | (dict(num_bits=8, strategy="channel", group_size=None) if module.endswith("o_proj") else {})


def int8_args(module):
    return dict(type="int", num_bits=8, strategy="channel", symmetric=not module.endswith("up_proj"))


def compressed_config(form):
    return dict(quant_method="compressed-tensors", format=form, quantization_status="compressed", ignore=["lm_head"],
                config_groups=dict(group_0=dict(targets=["Linear"], weights={}, input_activations=None)))


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
FLOAT8 = torch.float8_e4m3fn


def nvfp4(weight):
    """Returns the packed codes, an FP8 scale for every 16 columns of a row, the scale of these scales, and the numbers that the codes
    encode."""
    rows, cols = weight.shape
    groups = weight.reshape(rows, -1, 16)
    whole = weight.abs().max() / (6 * 448)
    scales = (groups.abs().amax(2) / 6 / whole).to(FLOAT8)
    spread = (scales.float() * whole)[:, :, None]
    codes = ((groups / spread)[..., None] - E2M1).abs().argmin(-1).reshape(rows, cols)
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)
    return packed, scales, whole, (E2M1[codes].reshape(groups.shape) * spread).reshape(rows, cols)


def exponents_of(weight, most, log2_of_most):
    """Returns an E8M0 scale for every 32 columns of a row, and the values of these scales. `most`: the largest number of the format.
    `log2_of_most`: its base-2 logarithm, rounded down."""
    groups = weight.reshape(len(weight), -1, 32)
    powers = groups.abs().amax(2).log2().floor() - log2_of_most
    assert (groups.abs() / 2 ** powers[:, :, None] < 2 * most).all()
    return (powers + 127).to(torch.uint8), 2.0 ** powers


def mxfp8(weight):
    stored, scales = exponents_of(weight, 448, 8)
    spread = scales.repeat_interleave(32, 1)
    numbers = (weight / spread).clamp(-448, 448).to(FLOAT8)
    return numbers, stored, numbers.float() * spread


def modelopt(config, module, weight):
    """Packs a matrix as NVFP4. Where the file mixes formats, packs up_proj as MXFP8 and down_proj as FP8."""
    if config["quant_algo"] == "MIXED_PRECISION" and module.endswith("up_proj"):
        numbers, scales, plain = mxfp8(weight)
        return dict(weight=numbers, weight_scale=scales), plain
    if config["quant_algo"] == "MIXED_PRECISION" and module.endswith("down_proj"):
        scale = weight.abs().max() / 448
        numbers = (weight / scale).to(FLOAT8)
        return dict(weight=numbers, weight_scale=scale, input_scale=torch.tensor(0.25)), numbers.float() * scale
    packed, scales, whole, plain = nvfp4(weight)
    return dict(weight=packed, weight_scale=scales, weight_scale_2=whole, input_scale=torch.tensor(0.25)), plain


def float_packed(form):
    """Returns a function that packs by compressed-tensors' compressor for floating-point formats in groups."""
    def make(config, module, weight):
        args = QuantizationArgs(**config["config_groups"]["group_0"]["weights"])
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor = BaseCompressor.get_value_from_registry(form)
        if form.startswith("nvfp4"):
            most = weight.abs().reshape(len(weight), -1, 16).amax(2)
            whole = (6 * 448 / weight.abs().max()).reshape(1)
            state = dict(weight=weight, weight_scale=(most / 6 * whole).to(FLOAT8).float(), weight_global_scale=whole)
        else:
            state = dict(weight=weight, weight_scale=exponents_of(weight, *((448, 8) if "8" in form else (6, 2)))[1])
        parts = compressor.compress(state, scheme)
        plain = compressor.decompress(dict(parts), scheme)["weight"].float()
        if form.startswith("nvfp4"):  # the package computes in bfloat16, which would round products of numbers and scales
            numbers = unpack_fp4_from_uint8(parts["weight_packed"], *weight.shape, dtype=torch.float32)
            exact = numbers * (parts["weight_scale"].float() / whole).repeat_interleave(16, 1)
            assert torch.allclose(exact, plain, rtol=2**-7, atol=0)
            plain = exact
        return {name: part for name, part in parts.items() if part is not None}, plain
    return make


def bitsandbytes(config, module, weight):
    """Packs a matrix with the code of bitsandbytes: 8 bits, or 4 bits with plain or quantised scales."""
    if config["load_in_8bit"]:
        numbers, most, _ = bnb.int8_vectorwise_quant(weight.half())
        parts = dict(weight=numbers, SCB=most.float(), weight_format=torch.tensor(0, dtype=torch.uint8))
        return parts, bnb.int8_vectorwise_dequant(numbers, most.float())
    # Blocks follow each other in row-major order. The package's code for CPUs takes wrong scales where a block passes from
    # row to row, so it sees a matrix with one block in each row.
    codes, state = bnb.quantize_4bit(weight.reshape(-1, 64), blocksize=64, compress_statistics=config["bnb_4bit_use_double_quant"],
                                     quant_type=config["bnb_4bit_quant_type"])
    plain = bnb.dequantize_4bit(codes, state).reshape(weight.shape)
    state.shape = weight.shape
    parts = dict(weight=codes) | {f"weight.{name}": part for name, part in state.as_dict(packed=True).items()}
    return parts, plain


def bnb_config(**settings):
    return dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, bnb_4bit_quant_type="nf4",
                bnb_4bit_use_double_quant=True, bnb_4bit_quant_storage="uint8", llm_int8_skip_modules=["lm_head"]) | settings


def float_config(form, bits, group, **more):
    config = compressed_config(form)
    config["config_groups"]["group_0"]["weights"] = dict(type="float", num_bits=bits, strategy="tensor_group" if group == 16 else "group",
                                                         group_size=group, symmetric=True, **more)
    return config


FORMS = {
    "gptq": (gptq, GPTQ),
    "gptq_act": (gptq, GPTQ | dict(group_size=64, desc_act=True, sym=False)),
    "gptq_asym": (gptq, GPTQ | dict(sym=False)),
    "gptq_v2": (gptq, GPTQ | dict(bits=8, group_size=-1, checkpoint_format="gptq_v2")),
    "awq": (awq, dict(quant_method="awq", bits=4, group_size=32, version="gemm", zero_point=True)),
    "packed": (compressed("pack-quantized", packed_args), compressed_config("pack-quantized")),
    "int8": (compressed("int-quantized", int8_args), compressed_config("int-quantized")),
    # Neither 40 nor 48 divides the rows or columns of all matrices.
    "fp8": (fp8, FP8 | dict(weight_block_size=[40, 48])),
    "fp8_tensor": (fp8, FP8 | dict(activation_scheme="static")),
    "fp8_channel": (compressed("float-quantized", lambda module: dict(type="float", num_bits=8, strategy="channel")),
                    compressed_config("float-quantized")),
    "nvfp4": (modelopt, dict(quant_method="modelopt", quant_algo="NVFP4", ignore=["lm_head"])),
    "modelopt": (modelopt, dict(quant_method="modelopt", quant_algo="MIXED_PRECISION", ignore=["lm_head"])),
    "nvfp4_packed": (float_packed("nvfp4-pack-quantized"), float_config("nvfp4-pack-quantized", 4, 16)),
    "mxfp4_packed": (float_packed("mxfp4-pack-quantized"), float_config("mxfp4-pack-quantized", 4, 32, scale_dtype="torch.uint8")),
    "mxfp8": (float_packed("mxfp8-quantized"), float_config("mxfp8-quantized", 8, 32, scale_dtype="torch.uint8")),
    # Blocks of 64 numbers pass from row to row, because rows have 96 numbers.
    "nf4": (bitsandbytes, bnb_config()),
    "fp4": (bitsandbytes, bnb_config(bnb_4bit_quant_type="fp4", bnb_4bit_use_double_quant=False)),
    "bnb_int8": (bitsandbytes, bnb_config(load_in_4bit=False, load_in_8bit=True)),
}


@torch.no_grad()
def make(name):
    maker, quantization = FORMS[name]
    torch.manual_seed(31)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE)).eval()
    model.generation_config.pad_token_id = None
    tensors = {}
    for parameter_name, parameter in model.named_parameters():
        module = parameter_name.removesuffix(".weight")
        if parameter.dim() == 2 and "embed" not in module and (module != "lm_head" or name == "packed"):
            parts, plain = maker(quantization, module, parameter.float())
            tensors |= {f"{module}.{part}": tensor.contiguous() for part, tensor in parts.items()}
            parameter.copy_(plain)
        else:
            parameter.copy_(parameter.half().float())
            tensors[parameter_name] = parameter.half()
    directory = f"{HERE}/models/{name}"
    os.makedirs(directory, exist_ok=True)
    save_file(tensors, f"{directory}/model.safetensors", metadata={"format": "pt"})
    with open(f"{directory}/config.json", "w") as out:
        json.dump(model.config.to_diff_dict() | SHAPE | dict(architectures=["LlamaForCausalLM"], quantization_config=quantization), out,
                  indent=2)
    rng = random.Random(name)
    prompts = [[rng.randrange(2, SHAPE["vocab_size"]) for _ in range(n)] for n in LENGTHS for _ in range(4 if name in ("gptq_asym", "awq") else 2)]
    make_golden.MARGIN = MARGIN_OF_MINIMA if name in ("gptq_asym", "awq") else MARGIN
    write(f"tiny_{name}", expectations(model, prompts))


if __name__ == "__main__":
    for each in sys.argv[1:] or FORMS:
        make(each)
