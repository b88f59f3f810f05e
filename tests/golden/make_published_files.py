#!/usr/bin/env python3
"""Makes published_files.json: the facts in the files of published models. These are the configurations without keys that change nothing,
the content of tokenizer_config.json (with only a mark for a chat template), and names of tensors as patterns with ranges of numbers. Usage: make_published_files.py CLONES. CLONES is a folder with a clone
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
    ("Llama-2-7b-chat-hf", "isatyabrata/llama2-7b-chat-hf"),
    ("ELYZA-japanese-Llama-2-13b-instruct", "kuolema-aap14/ELYZA-japanese-Llama-2-13b-instruct"),
    ("lzlv_70b_fp16_hf", "YouZiSoftware/lzlv_70b_fp16_hf"),
    ("granite-7b-lab", "VineethGithubIBM/graniteModelWithoutGGUF"),
    ("CodeFuse-CodeLlama-34B", "gmars/CodeFuse-CodeLlama-34B"),
    ("Reflection-Llama-3.1-70B", "MiMiGame-1/Reflection-Llama-3.1-70B"),
    ("open_llama_3b, Chinese and English", "1rin/openllama-chinese-english-3b"),
    ("Yi-1.5-6B-Chat, merged", "YouriLalain/2PRYMMAL-Yi1.5-6B-SLERP"),
    ("internlm-20b, as llama", "yangulei/internlm-20b"),
    ("Meta-Llama-3.1-8B-Instruct in bitsandbytes", "jeevanchaps/Meta-Llama3.1-8B-Instruct-assessment"),
    ("Orpheus-3B-0.1 in bitsandbytes", "DocWobble/Orpheus_3B_Quantized"),
    ("genz-70b in GPTQ", "itdevwu/Genz-70b-GPTQ"),
    ("Wizard-Vicuna-30B-Uncensored in GPTQ", "saluberis/Wizard-Vicuna-30B-Uncensored-GPTQ"),
    ("Mistral-7B-v0.1, sharded", "KamilaTrinkenschuh/Minstral-Model"),
    ("Mistral-7B with 32,002 tokens", "ajaviaad/neuroweave"),
    ("Dolphin3.0-R1-Mistral-24B", "gsasouza/dolphin3-mistral"),
    ("Mistral-Small-4 in MLX", "delsakov/mcp_tests"),
    ("dolphin-2.5-mixtral-8x7b, safetensors", "OSFAV7/dolping"),
    ("Qwen1.5-0.5B-Chat", "DracoUnion/Qwen1.5-moe-8x0.5B-Chat"),
    ("Qwen1.5-14B-Chat", "Bwin-AI/LiverGPT"),
    ("Qwen2-VL-7B-Instruct", "mohamadfayez/ain-model"),
    ("Sakura-14B-Qwen2.5-v1.0", "1235357/Backup_hf_sakura-14b-qwen2.5-v1.0-q6k"),
    ("DeepSeek-R1-Distill-Qwen-14B in MLX", "roshinpv/mpx"),
    ("stella_en_1.5B_v5", "jblorenzo/stella_en_1.5B_v5"),
    ("Qwen3-14B in MLX", "root-hypercube/qwen3-mlx", "Qwen3-14B-MLX-4bit/"),
    ("Cosmos-Reason2-8B (Qwen3-VL)", "sarcascoder/nvidia-reason2"),
    ("Qwen3.5-18B-REAP-A3B-Coding", "bryce-hoehn/Qwen3.5-18B-REAP-A3B-Coding"),
    ("Phi-3-mini-4k-instruct, merged", "YouriLalain/3PRYMMAL-PHI3-3B-SLERP"),
    ("Phi-tiny-MoE", "kunalm2345/slm-aplit"),
    ("phi-2 of 2023", "bacoco/Phi-2"),
    ("gemma-2-2b-it", "HakunaMatata888/gemma2-poem"),
    ("gemma-3-4b-it, the text model", "maxma233/timelyMeal"),
    ("SmolLM3-3B", "fetchwiki/HuggingFaceTB-SmolLM3-3B"),
    ("LFM2-1.2B", "fetchwiki/LiquidAI-LFM2-1.2B"),
    ("RedPajama-INCITE-7B-Base", "drcege/RedPajama-INCITE-7B-Base"),
    ("mpt-7b-instruct", "mikeybellissimo/LoRA-MPT", "SavedModels/MPT-7B-Instruct/"),
    ("all-MiniLM-L6-v2", "DeathGamer111/MiniLM-L6-v2"),
    ("gte-small", "koxy-ai/gte-small"),
    ("NoInstruct-small-Embedding-v0", "inin-zou/NoInstruct-small-Embedding-v0"),
    ("m3e-small", "kittenzty/m3e-small"),
    ("roberta-base-squad2", "AbidHasan95/roberta-base-squad2"),
    ("pythia-410m that classifies", "Avent-IQ/pythia-410m"),
    ("oasst-rm-2.1-pythia-1.4b", "junqi-jiang/oasstpythia1.5brm"),
    ("internlm2-chat-7b", "NanSang2000/S1mpleAgent"),
    ("chatglm2-6b", "emotibot-inc/Zhuzhi-6B"),
    ("MiMo-7B", "jj8127/mimo_kor"),
    ("MiniMax-M1", "renegade-studio/beta-O1"),
    ("MiniCPM-V", "EmotioTech/EmotioLocal"),
]
REFUSED = {
    "falcon-40b": 'architecture "RefinedWeb" is not supported',
    "granite-3b-code-instruct-128k": "attention_bias = true is not supported",
    "genz-70b in GPTQ": "bits = 3 is not supported",
    "Mistral-Small-4 in MLX": 'text_config: architecture "mistral4" is not supported',
    "DeepSeek-R1-Distill-Qwen-14B in MLX": 'quant_method "" is not supported',
    "Qwen3-14B in MLX": 'quant_method "" is not supported',
    "phi-2 of 2023": 'architecture "mixformer-sequential" is not supported',
    "oasst-rm-2.1-pythia-1.4b": 'architecture "gpt_neox_reward_model" is not supported',
    "internlm2-chat-7b": 'architecture "internlm2" is not supported',
    "chatglm2-6b": 'architecture "chatglm" is not supported',
    "MiMo-7B": 'architecture "mimo" is not supported',
    "MiniMax-M1": 'architecture "minimax_m1" is not supported',
    "MiniCPM-V": 'architecture "minicpmv" is not supported',
}
UNUSED = {"_name_or_path", "auto_map", "transformers_version", "torch_dtype", "dtype", "use_cache", "welcome", "prefix"}
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")
TOKENIZER = ("tokenizer_class", "add_bos_token", "add_eos_token", "add_prefix_space", "model_max_length", *TOKENS)
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def git(clone, *words):
    done = subprocess.run(["git", "--git-dir=" + clone, *words], capture_output=True)
    return done.stdout.decode() if done.returncode == 0 else ""


def ranges(numbers):
    """Returns [first, last] of every run of consecutive numbers."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def facts(config):
    """Returns a configuration without the keys that change nothing. Of the vision part, only the type stays."""
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
    """Returns the names with {} for numbers, and for each {} its ranges. Keeps only the first tensor of each kind of a vision part."""
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


def row(clones, name, repository, folder=""):
    clone = os.path.join(clones, repository.replace("/", "+"), "repo")
    commit = git(clone, "rev-parse", "HEAD")[:12]
    made = {"name": name, "source": f"the files in the GitHub repository {repository} at {commit}", "config": facts(json.loads(git(clone, "show", f"HEAD:{folder}config.json")))}
    try:
        made["tokenizer"] = tokenizer_facts(json.loads(git(clone, "show", f"HEAD:{folder}tokenizer_config.json")))
    except ValueError:
        pass
    for index in INDEXES:
        try:
            names = json.loads(git(clone, "show", f"HEAD:{folder}{index}"))["weight_map"]
        except ValueError:  # the repository has no such file, or damaged it
            continue
        if "quantization_config" not in made["config"] and name not in REFUSED:
            made["tensors"] = patterns(names)
            if index != INDEXES[0]:
                made["source"] += " (names of the .bin files)"
            break
    if name.startswith("Qwen3.5-"):  # leaves the names of 8 experts only, because all experts' names are alike
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
