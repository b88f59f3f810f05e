"""Mistakes in sampling, models and what reaches the workers."""
from mutant import Mutant

EFFECTS = ["worker/sampler_test:*Effect*"]
SERVED = ["e2e/effects_test:RequestTest"]
FLAGS = ["e2e/effects_test:FlagsTest"]

MUTANTS = [
    # Sampling.
    Mutant("presence and frequency penalties are exchanged for a draw", "worker/draw.cc",
           "spec.frequency_penalty, spec.presence_penalty}", "spec.presence_penalty, spec.frequency_penalty}", EFFECTS),
    Mutant("presence and frequency penalties are exchanged in a penalty's sum", "kernels/cpu/sampling.cc",
           "penalties.frequency * static_cast<float>(count) + penalties.presence",
           "penalties.presence * static_cast<float>(count) + penalties.frequency", EFFECTS),
    Mutant("presence and frequency penalties are exchanged on the wire", "comm/messages.cc",
           "s->frequency_penalty(),\n                    s->presence_penalty(),",
           "s->presence_penalty(),\n                    s->frequency_penalty(),", SERVED),
    Mutant("presence and frequency penalties are exchanged on their way to the device", "worker/cuda/cuda_sampler.cc",
           ".frequency = spec.frequency_penalty,\n         .presence = spec.presence_penalty,",
           ".frequency = spec.presence_penalty,\n         .presence = spec.frequency_penalty,", ["worker/cuda/cuda_engine_test:*EverySetting*"]),
    Mutant("the first token goes unpenalised", "worker/draw.cc", "if (HasPenalties(spec)) {",
           "if (HasPenalties(spec) && NumGenerated(sequence) > 0) {", EFFECTS),
    Mutant("a penalty counts the prompt as generated", "worker/draw.cc", "(s.num_prompt_tokens) ? 1 : 0;",
           "(s.num_prompt_tokens) ? 1 : 1;", EFFECTS),
    Mutant("min_p is dropped", "worker/draw.cc", "spec.top_p, spec.min_p}", "spec.top_p, 0.0f}", EFFECTS),
    Mutant("min_p is dropped on its way to the device", "worker/cuda/cuda_sampler.cc", ".min_p = spec.min_p,", ".min_p = 0.0f,",
           ["worker/cuda/cuda_engine_test:*EverySetting*"]),
    Mutant("min_p goes by the share before temperature", "kernels/cpu/sampling.cc",
           "static_cast<double>(temperature) * std::log(share)", "std::log(share)", EFFECTS),
    Mutant("logit_bias has the wrong sign", "worker/draw.cc", "logits[static_cast<size_t>(token)] += bias;",
           "logits[static_cast<size_t>(token)] -= bias;", EFFECTS),
    Mutant("min_tokens bans an end once too often", "worker/draw.cc", "NumGenerated(s) < s.sampling.min_tokens",
           "NumGenerated(s) <= s.sampling.min_tokens", EFFECTS),
    Mutant("min_tokens lets an end through one token early", "worker/draw.cc", "NumGenerated(s) < s.sampling.min_tokens",
           "NumGenerated(s) + 1 < s.sampling.min_tokens", EFFECTS),
    Mutant("the last rank wins a tie", "worker/cpu/sampler.cc", "if (all[rank * rows.size() + i].logit > best.logit) best",
           "if (all[rank * rows.size() + i].logit >= best.logit) best", EFFECTS),

    # Models and tokenizers.
    Mutant("a GGUF file's rope_freqs are not used", "comm/model/model_spec.cc", "if (!rope.divisors.empty()) frequency",
           "if (false) frequency", ["worker/golden_test:*AloneOneRank/mqa_gguf"]),
    Mutant("linear scaling does not scale", "comm/model/model_spec.cc",
           "if (!rope.llama3) {\n      frequency /= rope.factor;", "if (!rope.llama3) {\n      frequency /= 1;",
           ["worker/golden_test:*AloneOneRank/linear"]),
    Mutant("a GGUF file's linear scaling is not read", "comm/model/architectures/llama.cc",
           'rope.factor = config.Real("rope.scaling.factor");', "rope.factor = 1;",
           ["worker/golden_test:*AloneOneRank/linear_gguf"]),
    Mutant("BOS is never added", "coordinator/text/tokenizer.cc", "if (add_special_tokens) tokens.insert",
           "if (false && add_special_tokens) tokens.insert", ["coordinator/tokenizer_test:*AddedTokens*"]),
    Mutant("a prompt that is text is served without BOS", "coordinator/api/data_api.cc",
           "EncodePrompt(*text, call.add_special_tokens)", "EncodePrompt(*text, false)", SERVED),
    Mutant("single_word is not read", "coordinator/text/tokenizer_data_hf.cc", 'token.value("single_word", false)', "false",
           ["coordinator/tokenizer_test:*AddedTokens*"]),
    Mutant("whether an added token is normalised is not read", "coordinator/text/tokenizer_data_hf.cc",
           'token.value("normalized", false)', "false", ["coordinator/tokenizer_test:*AddedTokens*"]),
    Mutant("control tokens that count as normalised are found in what users write", "coordinator/text/tokenizer.cc",
           "if (token.normalized && !token.special)", "if (token.normalized)", ["coordinator/tokenizer_test:*AddedTokens*"]),
    Mutant("a shorter token takes the place of a single_word inside a word", "coordinator/text/tokenizer.cc",
           "    size_t begin = at, end = at + found->text.size();\n    at = end;",
           "    size_t begin = at, end = at + found->text.size();\n    ++at;", ["coordinator/tokenizer_test:*AddedTokens*"]),

    # What reaches the workers.
    Mutant("--activations does not reach the workers", "coordinator/cluster/deployment_sizing.cc",
           "assign.activations = topology_.activations;", "", FLAGS),
    Mutant("--kv-cache-dtype does not reach the workers", "coordinator/cluster/deployment_sizing.cc",
           "assign.kv_cache_dtype = topology_.cache.dtype;", "", FLAGS),
    Mutant("--quantization does not reach the workers", "coordinator/cluster/deployment_sizing.cc",
           "assign.quantization = topology_.quantization;", "", FLAGS),
    Mutant("workers drop the activations they are told", "worker/worker.cc", "assign.kv_cache_dtype, assign.activations};",
           "assign.kv_cache_dtype};", FLAGS),
]
