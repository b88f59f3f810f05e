#include "coordinator/cli/foreign_flags.h"

namespace quire {

namespace {

constexpr ForeignFlag kTuningFlags[] = {
    {"--middleware --tool-parser-plugin --logits-processors --reasoning-parser-plugin", FlagTakes::kWord,
     FlagFate::kRefused, "Quire loads no foreign code: leave it out"},
    {"--reasoning-budget", FlagTakes::kWord, FlagFate::kRefused,
     "use thinking_token_budget, or enable_thinking: false, in requests"},
    {"--model-tag", FlagTakes::kWord, FlagFate::kOurs, "--model"},
    {"--kv-cache-memory", FlagTakes::kWord, FlagFate::kOurs, "--kv-cache-memory-bytes"},
    {"--kv-offloading-size --hicache-size", FlagTakes::kWord, FlagFate::kOurs, "--swap-space"},
    {"-lv --verbosity --log-verbosity", FlagTakes::kWord, FlagFate::kNotNeeded, "--log-level says how much is logged"},
    {"--chat-template-file", FlagTakes::kWord, FlagFate::kOurs, "--chat-template"},
    {"--sleep-idle-seconds", FlagTakes::kWord, FlagFate::kOurs, "--keep-alive"},
    {"--models-max",
     FlagTakes::kWord, FlagFate::kNotNeeded, "--models-memory bounds the models that are loaded at once"},
    {"--disable-cascade-attn --no-perf --perf --no-op-offload --enable-p2p-check "
     "--triton-attention-reduce-in-fp32 --no-repack -nr --repack --enable-dbo --kv-sharing-fast-prefill "
     "--enable-flashinfer-autotune --enable-fused-moe-sum-all-reduce",
     FlagTakes::kNothing, FlagFate::kNotNeeded,
     "Quire chooses kernels and graphs itself, and answers do not depend on them"},
    {"--moe-runner-backend --moe-a2a-backend --all2all-backend --deepep-mode --fp8-gemm-runner-backend "
     "--optimization-level --performance-mode --mm-attention-backend --prefill-attention-backend "
     "--decode-attention-backend --attention-config --kernel-config --max-num-on-the-fly "
     "--cuda-graph-max-batch-size --num-lookahead-slots",
     FlagTakes::kWord, FlagFate::kNotNeeded,
     "Quire chooses kernels and graphs itself, and answers do not depend on them"},
    {"--enable-deterministic-inference",
     FlagTakes::kNothing, FlagFate::kNotNeeded,
     "on CPUs the bits of an answer depend on no other request; --exact computes as Hugging Face does"},
    {"--data-parallel-backend --data-parallel-rpc-port --worker-cls --scheduler-cls --load-balance-method "
     "--max-num-partial-prefills --max-long-partial-prefills --long-prefill-token-threshold "
     "--max-waiting-tokens --poll --poll-batch --prio-batch",
     FlagTakes::kWord, FlagFate::kNotNeeded, "the coordinator plans every step, and gives requests to replicas itself"},
    {"--data-parallel-hybrid-lb --data-parallel-external-lb --enable-dp-attention --enable-dp-lm-head "
     "--ray-workers-use-nsight --disable-hybrid-kv-cache-manager",
     FlagTakes::kNothing, FlagFate::kNotNeeded,
     "the coordinator plans every step, and gives requests to replicas itself"},
    {"--enable-ep-moe --enable-eplb", FlagTakes::kNothing, FlagFate::kRefused, "use --enable-expert-parallel"},
    {"--num-redundant-experts --eplb-config",
     FlagTakes::kWord, FlagFate::kRefused,
     "leave it out: each expert is held once; --enable-expert-parallel divides them among workers"},
    {"--config-format --model-impl --mamba-cache-dtype --mamba-ssm-cache-dtype --mamba-cache-mode "
     "--lora-dtype --tokenizer-config-path --tokenizer-worker-num --gguf-file",
     FlagTakes::kWord, FlagFate::kNotNeeded, "Quire reads it from the model's files"},
    {"--allow-deprecated-quantization --no-tokenizer-pool",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "Quire reads it from the model's files"},
    {"--calculate-kv-scales",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "scales of keys and values are measured as they are stored"},
    {"--disable-sliding-window",
     FlagTakes::kNothing, FlagFate::kRefused, "leave it out: a model's windows hold; --max-model-len bounds sequences"},
    {"--skip-tokenizer-init --tokens-only",
     FlagTakes::kNothing, FlagFate::kRefused,
     "leave it out: prompts may be token ids, and detokenize: false leaves texts out of answers"},
    {"--structured-outputs-config --mm-processor-cache-gb --mm-encoder-attn-dtype --media-io-kwargs "
     "--video-pruning-rate --default-mm-loras --image-min-tokens --image-max-tokens",
     FlagTakes::kWord, FlagFate::kNotNeeded, "grammars are xgrammar's, and only the text part of a model is served"},
    {"--skip-mm-profiling --interleave-mm-strings --enable-multimodal-encoder-data-parallel --no-mmproj "
     "--no-mmproj-auto --no-mmproj-offload --mmproj-offload --mmproj-auto --keep-mm-feature-on-device",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "only the text part of a model is served"},
    {"--allowed-local-media-path --allowed-media-domains --media-path --ec-transfer-config",
     FlagTakes::kWord, FlagFate::kRefused, "only the text part of a model is served: leave it out"},
    {"--constrained-json-whitespace-pattern",
     FlagTakes::kWord, FlagFate::kRefused, "use guided_grammar in requests, with the blanks"},
    {"--constrained-json-disable-any-whitespace --disable-grammar-support --enable-custom-logit-processor",
     FlagTakes::kNothing, FlagFate::kRefused, "leave it out: requests say which grammar holds, if one does"},
    {"--prefix-caching-hash-algo", FlagTakes::kWord, FlagFate::kNotNeeded, "Quire chooses the hash itself"},
    {"--enable-hierarchical-cache", FlagTakes::kNothing, FlagFate::kRefused, "use --swap-space GIB, or --kv-disk DIR"},
    {"--kv-offloading-backend --hicache-write-policy --hicache-io-backend --hicache-mem-layout "
     "--hicache-storage-backend",
     FlagTakes::kWord, FlagFate::kRefused, "use --swap-space GIB, or --kv-disk DIR"},
    {"--enable-sleep-mode --enable-memory-saver --enable-weights-cpu-backup",
     FlagTakes::kNothing, FlagFate::kRefused,
     "use --load request and --keep-alive, which unload models without requests"},
    {"--uds --unix-socket --shard-uds-path --master-shard-uds-path",
     FlagTakes::kWord, FlagFate::kRefused, "use --host and --port: the server listens on TCP only"},
    {"--reuse-port", FlagTakes::kNothing, FlagFate::kRefused, "leave it out: one process answers on a port"},
    {"--shutdown-timeout", FlagTakes::kWord, FlagFate::kRefused, "use --set server.limits.drain_seconds=N"},
    {"-to --timeout",
     FlagTakes::kWord, FlagFate::kRefused,
     "use --set server.limits.request_seconds=N, and server.limits.idle_seconds for connections"},
    {"--exclude-tools-when-tool-choice-none --return-tokens-as-token-ids --ignore-eos --special -sp",
     FlagTakes::kNothing, FlagFate::kRefused,
     "set it in requests: tool_choice, return_tokens_as_token_ids, ignore_eos, skip_special_tokens"},
    {"--chat-template-kwargs --default-chat-template-kwargs",
     FlagTakes::kWord, FlagFate::kRefused, "set chat_template_kwargs in requests"},
    {"--pooler-config --override-pooler-config --embd-normalize --pooling-type",
     FlagTakes::kWord, FlagFate::kRefused, "use --pooling, and normalize in requests"},
    {"--pooler-use-tensor-parallel", FlagTakes::kNothing, FlagFate::kRefused, "use --pooling, and -tp"},
    {"--fully-sharded-loras --lora-init-without-apply --enable-lora-overlap-loading "
     "--enable-tower-connector-lora",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "Quire divides adapters among workers itself"},
    {"--lora-extra-vocab-size --lora-backend --lora-eviction-policy --lora-target-modules "
     "--max-lora-chunk-size",
     FlagTakes::kWord, FlagFate::kNotNeeded, "Quire divides adapters among workers itself"},
    {"--log-config-file --log-file",
     FlagTakes::kWord, FlagFate::kRefused,
     "use --log-format and --log-level; the log goes to standard error, which a shell or supervisor sends "
     "on"},
    {"--log-requests-level --disable-access-log-for-endpoints --log-requests-format --log-requests-target "
     "--gc-warning-threshold-secs --access-log-format",
     FlagTakes::kWord, FlagFate::kNotNeeded, "--access-log and --log-level say what is logged"},
    {"--enable-log-outputs --enable-log-deltas --log-error-stack --aggregate-engine-logging "
     "--show-time-cost --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps "
     "--enable-logging-iteration-details",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "--access-log and --log-level say what is logged"},
    {"--log-colors", FlagTakes::kSwitch, FlagFate::kNotNeeded, "--access-log and --log-level say what is logged"},
    {"--show-hidden-metrics-for-version --collect-detailed-traces --bucket-time-to-first-token "
     "--bucket-inter-token-latency --bucket-e2e-request-latency --prompt-tokens-buckets "
     "--generation-tokens-buckets --kv-cache-metrics-sample",
     FlagTakes::kWord, FlagFate::kNotNeeded, "the admin port has all metrics, with buckets of its own"},
    {"--enable-mfu-metrics --kv-cache-metrics --cudagraph-metrics --collect-tokens-histogram "
     "--enable-metrics-for-all-schedulers --no-slots --no-metrics --enable-layerwise-nvtx-tracing",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "the admin port has all metrics, with buckets of its own"},
    {"--otlp-service-name", FlagTakes::kWord, FlagFate::kRefused, "set OTEL_SERVICE_NAME"},
    {"--use-tqdm-on-load --weight-loader-disable-mmap --direct-io -dio --no-direct-io --check-tensors "
     "--delete-ckpt-after-loading --enable-prefetch --no-host",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "Quire reads weights its own way"},
    {"--pt-load-map-location --model-loader-extra-config --ignore-patterns --safetensors-load-strategy "
     "--weight-loader-prefetch-checkpoints --additional-config --logits-processor-pattern",
     FlagTakes::kWord, FlagFate::kNotNeeded, "Quire reads weights its own way"},
    {"--offline", FlagTakes::kNothing, FlagFate::kNotNeeded, "nothing is fetched without --fetch"},
    {"--fail-on-environ-validation",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "unknown settings always end the start"},
    {"--enable-ssl-refresh",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "changed certificates are read again without a flag"},
    {"--h11-max-header-count --h11-max-incomplete-event-size --max-http-request-body-size",
     FlagTakes::kWord, FlagFate::kRefused, "leave it out: docs/limits.md lists these limits, which are fixed"},
    {"--data-parallel-rank --data-parallel-start-rank --numa-node --nnodes-ratio",
     FlagTakes::kWord, FlagFate::kRefused,
     "name the nodes in a topology file (docs/serving.md, deploy/topologies/two_nodes.yaml)"},
    {"--worker-extension-cls --io-processor-plugin --tool-server --middleware-plugin "
     "--custom-sigquit-handler",
     FlagTakes::kWord, FlagFate::kRefused, "Quire loads no foreign code: leave it out"},
    {"--grpc --grpc-mode", FlagTakes::kNothing, FlagFate::kRefused, "leave it out: the server speaks HTTP"},
    {"--torchao-config --modelopt-quant --quantization-param-path --bnb-4bit-compute-dtype",
     FlagTakes::kWord, FlagFate::kRefused,
     "use --quantization int8 or int4 for plain weights; quantised files are read as they are"},
    {"--speculative-num-steps --speculative-eagle-topk --speculative-token-map --draft-min --draft-n-min "
     "--draft-p-min --draft-p-split --spec-draft-n-max --spec-type --spec-ngram-size-n --spec-ngram-size-m",
     FlagTakes::kWord, FlagFate::kRefused,
     "use --speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 8}'"},
    {"-td --threads-draft -tbd --threads-batch-draft -cd --ctx-size-draft -devd --device-draft -ngld "
     "--gpu-layers-draft --n-gpu-layers-draft -hfd --hf-repo-draft --override-tensor-draft -otd "
     "--spec-replace --cache-type-k-draft --cache-type-v-draft -ctkd -ctvd",
     FlagTakes::kWord, FlagFate::kRefused,
     "leave it out: --speculative-config names the draft model, which runs with the threads and blocks of rank 0"},
    {"-hfv --hf-repo-v -hffv --hf-file-v -mv --model-vocoder --tts-speaker-file",
     FlagTakes::kWord, FlagFate::kRefused, "answers are texts: leave it out"},
    {"--tts-use-guide-tokens", FlagTakes::kNothing, FlagFate::kRefused, "answers are texts: leave it out"},
    {"--allow-auto-truncate", FlagTakes::kNothing, FlagFate::kRefused, "use truncate_prompt_tokens in requests"},
    {"--mamba-full-memory-ratio --swa-full-tokens-ratio --max-mamba-cache-size --ctx-checkpoints "
     "--swa-checkpoints -ctxcp --checkpoint-every-n-tokens",
     FlagTakes::kWord, FlagFate::kNotNeeded, "Quire divides the KV memory between kinds of layers itself"},
    {"--file-storage-path --slot-save-path --crash-dump-folder --warmups --lookup-cache-static -lcs "
     "--lookup-cache-dynamic -lcd",
     FlagTakes::kWord, FlagFate::kRefused,
     "use --kv-disk DIR to keep the cache, and --journal DIR to keep what a step did"},
    {"--admin-api-key",
     FlagTakes::kWord, FlagFate::kRefused,
     "keys lie in files, because every user can read a command line: use --admin-token-file"},
    {"-C --cpu-mask -Cr --cpu-range --cpu-strict -Cb --cpu-mask-batch -Crb --cpu-range-batch "
     "--cpu-strict-batch",
     FlagTakes::kWord, FlagFate::kRefused,
     "use --threads-per-worker, or start the server under taskset: workers keep to the processors that "
     "they are given"},
    {"--prio", FlagTakes::kWord, FlagFate::kRefused, "start the server under nice: workers keep its priority"},
    {"-nkvo --no-kv-offload",
     FlagTakes::kNothing, FlagFate::kRefused, "the cache lies where the model runs: use --backend cpu"},
    {"-kvo --kv-offload -kvu --no-warmup-tokens --escape -e --no-escape --prefill-assistant "
     "--no-prefill-assistant",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "Quire always works so"},
    {"--no-context-shift", FlagTakes::kNothing, FlagFate::kNotNeeded, "Quire never shifts"},
    {"-fit --fit",
     FlagTakes::kSwitch, FlagFate::kNotNeeded,
     "Quire fits the KV cache to the memory that is free; --max-model-len bounds sequences"},
    {"-fitt --fit-target -fitc --fit-ctx --defrag-thold -dt --slot-prompt-similarity-threshold",
     FlagTakes::kWord, FlagFate::kNotNeeded,
     "Quire fits the KV cache to the memory that is free; --max-model-len bounds sequences"},
    {"-nocb --no-cont-batching",
     FlagTakes::kNothing, FlagFate::kRefused, "use --max-num-seqs 1, so that requests take turns"},
    {"--no-jinja", FlagTakes::kNothing, FlagFate::kRefused, "use /v1/completions, which uses no template"},
    {"--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
     FlagTakes::kWord, FlagFate::kRefused,
     "change config.json: --max-model-len goes as far as its scaling of positions reaches"},
    {"--control-vector --control-vector-scaled --control-vector-layer-range",
     FlagTakes::kWord, FlagFate::kRefused,
     "leave it out: there are no control vectors; --lora-modules serves adapters"},
    {"--list-devices", FlagTakes::kNothing, FlagFate::kRefused, "use quire check, which looks at the devices"},
    {"--samplers --sampling-seq --sampler-seq --xtc-probability --xtc-threshold --typical --repeat-last-n "
     "--dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker "
     "--dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent --top-nsigma --top-n-sigma "
     "--logit-bias -l --adaptive-target --adaptive-decay",
     FlagTakes::kWord, FlagFate::kRefused,
     "set the fields in requests or in the model's generation_config.json; --generation-config chooses the "
     "defaults"},
    {"--grammar --grammar-file --json-schema -j --json-schema-file -jf -r --reverse-prompt --format",
     FlagTakes::kWord, FlagFate::kRefused, "set response_format, guided_grammar or stop in requests"},
    {"--spm-infill",
     FlagTakes::kNothing, FlagFate::kRefused,
     "put the gap's texts into the prompt, as the model was trained to read them"},
    {"--static-path --webui-config --webui-config-file --tools",
     FlagTakes::kWord, FlagFate::kRefused, "leave it out: the chat page is built in; --no-chat-page turns it off"},
    {"--models-dir --models-preset",
     FlagTakes::kWord, FlagFate::kRefused, "use --model-dir DIR, or name each model: --model NAME=PATH, repeated"},
    {"--no-models-autoload",
     FlagTakes::kNothing, FlagFate::kRefused, "use --load start, which loads all models at once"},
    {"--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default "
     "--fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default "
     "--gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default",
     FlagTakes::kNothing, FlagFate::kRefused, "name the model: quire serve ORG/NAME --fetch"},
    {"--nowordwrap --insecure --env --hidethinking",
     FlagTakes::kNothing, FlagFate::kRefused, "leave it out: quire serve has nothing of the kind"},
    {"--sharded", FlagTakes::kSwitch, FlagFate::kRefused, "use -tp N"},
    {"--ngrok", FlagTakes::kNothing, FlagFate::kRefused, "use a proxy, with --allowed-hosts"},
    {"--watermark-gamma --watermark-delta",
     FlagTakes::kWord, FlagFate::kRefused, "leave it out: answers have no watermark"},
};

}  // namespace

std::span<const ForeignFlag> ForeignTuningFlags() { return kTuningFlags; }

}  // namespace quire
