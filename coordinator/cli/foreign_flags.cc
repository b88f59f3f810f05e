#include "coordinator/cli/foreign_flags.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace quire {

namespace {

// The foreign flags of servers, grouped by FlagFate, and then the foreign flags of clients. A flag whose FlagFate
// depends on its value is also in kForeignValues.
constexpr ForeignFlag kForeignFlags[] = {
    {"-m --model-path --model-id --hf-repo -hf -hfr", FlagTakes::kWord, FlagFate::kOurs, "--model"},
    {"--alias -a", FlagTakes::kWord, FlagFate::kOurs, "--served-model-name"},
    {"-c --ctx-size --context-length --max-total-length", FlagTakes::kWord, FlagFate::kOurs, "--max-model-len"},
    {"-np --parallel --max-running-requests", FlagTakes::kWord, FlagFate::kOurs, "--max-num-seqs"},
    {"--max-queued-requests --max-waiting-requests", FlagTakes::kWord, FlagFate::kOurs, "--max-num-queued-reqs"},
    {"-b --batch-size --chunked-prefill-size --max-batch-prefill-tokens --max-prefill-tokens", FlagTakes::kWord,
     FlagFate::kOurs, "--max-num-batched-tokens"},
    {"--mem-fraction-static --cuda-memory-fraction", FlagTakes::kWord, FlagFate::kOurs, "--gpu-memory-utilization"},
    {"--num-gpu-blocks-override", FlagTakes::kWord, FlagFate::kOurs, "--num-kv-blocks"},
    {"--page-size", FlagTakes::kWord, FlagFate::kOurs, "--block-size"},
    {"--tp --tp-size --num-shard", FlagTakes::kWord, FlagFate::kOurs, "--tensor-parallel-size"},
    {"--pp-size", FlagTakes::kWord, FlagFate::kOurs, "--pipeline-parallel-size"},
    {"--dp --dp-size -dp", FlagTakes::kWord, FlagFate::kOurs, "--data-parallel-size"},
    {"-t --threads", FlagTakes::kWord, FlagFate::kOurs, "--threads-per-worker"},
    {"--device", FlagTakes::kWord, FlagFate::kOurs, "--backend"},
    {"-ctk --cache-type-k", FlagTakes::kWord, FlagFate::kOurs, "--kv-cache-dtype"},
    {"--quantize", FlagTakes::kWord, FlagFate::kOurs, "--quantization"},
    {"--random-seed -s", FlagTakes::kWord, FlagFate::kOurs, "--seed"},
    {"--hostname", FlagTakes::kWord, FlagFate::kOurs, "--host"},
    {"--ssl-cert-file", FlagTakes::kWord, FlagFate::kOurs, "--ssl-certfile"},
    {"--ssl-key-file", FlagTakes::kWord, FlagFate::kOurs, "--ssl-keyfile"},
    {"--cors-allow-origin", FlagTakes::kWord, FlagFate::kOurs, "--allowed-origins"},
    {"--otlp-endpoint", FlagTakes::kWord, FlagFate::kOurs, "--otlp-traces-endpoint"},
    {"--disable-radix-cache --no-cache-prompt --no-prefix-caching", FlagTakes::kNothing, FlagFate::kOurs,
     "--no-enable-prefix-caching"},
    {"--disable-overlap-schedule --no-async-scheduling", FlagTakes::kNothing, FlagFate::kOurs,
     "--set scheduler.plan_ahead=false"},
    {"--no-webui --no-ui", FlagTakes::kNothing, FlagFate::kOurs, "--no-chat-page"},
    {"--log-requests --enable-log-requests", FlagTakes::kNothing, FlagFate::kOurs, "--access-log text"},
    {"--json-output", FlagTakes::kNothing, FlagFate::kOurs, "--access-log json"},
    {"-v --verbose", FlagTakes::kNothing, FlagFate::kOurs, "--log-level debug"},
    {"--trust-remote-code", FlagTakes::kNothing, FlagFate::kNotNeeded,
     "Quire runs no code of models; architectures that it does not know are refused"},
    {"--enforce-eager --disable-cuda-graph --no-warmup --skip-server-warmup --disable-custom-kernels "
     "--disable-custom-all-reduce",
     FlagTakes::kNothing, FlagFate::kNotNeeded,
     "Quire chooses kernels and graphs itself, and answers do not depend on them"},
    {"--cuda-graph-max-bs --cuda-graph-bs --max-seq-len-to-capture --cuda-graph-sizes --cuda-graphs "
     "--compilation-config -O --torch-compile-max-bs",
     FlagTakes::kWord, FlagFate::kNotNeeded,
     "Quire chooses kernels and graphs itself, and answers do not depend on them"},
    {"--enable-torch-compile --enable-mixed-chunk --enable-chunked-prefill --no-enable-chunked-prefill "
     "--async-scheduling --use-v2-block-manager",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "steps mix prompts and answers, and overlap, without a flag"},
    {"--num-scheduler-steps --stream-interval --scheduler-delay-factor --num-continuous-decode-steps "
     "--schedule-conservativeness",
     FlagTakes::kWord, FlagFate::kNotNeeded, "the scheduler sends every token as soon as a step has made it"},
    {"--schedule-policy --scheduling-policy --waiting-served-ratio", FlagTakes::kWord, FlagFate::kNotNeeded,
     "keys share steps evenly, and requests have a field priority"},
    {"--flash-attn -fa", FlagTakes::kSwitch, FlagFate::kNotNeeded, "the kernels of attention always work in tiles"},
    {"-ub --ubatch-size", FlagTakes::kWord, FlagFate::kNotNeeded,
     "a step is computed whole; --max-num-batched-tokens bounds it"},
    {"-cb --cont-batching --jinja --no-mmap --mmap --kv-unified --swa-full", FlagTakes::kNothing, FlagFate::kNotNeeded,
     "Quire always works so"},
    {"--enable-auto-tool-choice", FlagTakes::kNothing, FlagFate::kNotNeeded,
     "a request that has tools may call them; --tool-call-parser says how, if the template does not"},
    {"--enable-reasoning", FlagTakes::kNothing, FlagFate::kNotNeeded,
     "thoughts are set apart where the template has them; --reasoning-parser says how, if it does not"},
    {"--reasoning-format", FlagTakes::kWord, FlagFate::kNotNeeded,
     "thoughts come as reasoning_content; --reasoning-parser none leaves them in the text"},
    {"--chat-template-content-format --response-role --tokenizer-mode --structured-outputs-config.backend",
     FlagTakes::kWord, FlagFate::kNotNeeded, "Quire reads it from the model's files"},
    {"--guided-decoding-backend --grammar-backend --sampling-backend", FlagTakes::kWord, FlagFate::kNotNeeded,
     "grammars are xgrammar's, and Quire draws itself"},
    {"--task --runner --convert", FlagTakes::kWord, FlagFate::kNotNeeded,
     "every endpoint that the model can serve is there"},
    {"--is-embedding --embedding --embeddings --reranking --rerank", FlagTakes::kNothing, FlagFate::kNotNeeded,
     "every endpoint that the model can serve is there"},
    {"--limit-mm-per-prompt --mm-processor-kwargs --mm-encoder-tp-mode", FlagTakes::kWord, FlagFate::kNotNeeded,
     "only the text part of a model is served"},
    {"--language-model-only --enable-multimodal --disable-mm-preprocessor-cache", FlagTakes::kNothing,
     FlagFate::kNotNeeded, "only the text part of a model is served"},
    {"--disable-log-requests --no-enable-log-requests --disable-log-stats --disable-uvicorn-access-log "
     "--log-disable",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "the access log is off unless --access-log says otherwise"},
    {"--log-level-http --uvicorn-log-level --decode-log-interval --max-log-len", FlagTakes::kWord, FlagFate::kNotNeeded,
     "--access-log and --log-level say what is logged"},
    {"--enable-metrics --metrics --enable-cache-report --enable-prompt-tokens-details --slots --props "
     "--enable-server-load-tracking",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "the admin port and the usage of answers always have it"},
    {"--distributed-executor-backend --dist-timeout --watchdog-timeout --max-parallel-loading-workers "
     "--api-server-count -asc --renderer-num-workers --validation-workers --usage-stats",
     FlagTakes::kWord, FlagFate::kNotNeeded, "mpirun starts the workers, and the coordinator watches them"},
    {"--worker-use-ray --disable-frontend-multiprocessing --disable-nccl-for-dp-synchronization", FlagTakes::kNothing,
     FlagFate::kNotNeeded, "mpirun starts the workers, and the coordinator watches them"},
    {"--allow-credentials --disable-fastapi-docs --enable-request-id-headers "
     "--enable-tokenizer-info-endpoint",
     FlagTakes::kNothing, FlagFate::kNotNeeded, "Quire's ports answer without it"},
    {"--allowed-methods --allowed-headers", FlagTakes::kWord, FlagFate::kNotNeeded,
     "the methods and headers of the API are allowed to --allowed-origins"},
    {"--cache-reuse --cache-ram -cram --slot-prompt-similarity -sps", FlagTakes::kWord, FlagFate::kNotNeeded,
     "prompts are found in the cache by their blocks"},
    {"--max-loras --max-loras-per-batch --max-loaded-loras", FlagTakes::kWord, FlagFate::kNotNeeded,
     "a step may use all adapters that are loaded; --max-cpu-loras bounds how many those of --lora-dir are"},
    {"--enable-lora", FlagTakes::kNothing, FlagFate::kNotNeeded,
     "--lora-modules names adapters for the start, and --lora-dir lets operators load others"},
    {"--tb -tb --threads-batch --threads-http", FlagTakes::kWord, FlagFate::kNotNeeded,
     "--threads-per-worker holds for prompts and answers alike"},
    {"--timeout-keep-alive", FlagTakes::kWord, FlagFate::kNotNeeded, "server.limits.idle_seconds is for connections"},
    {"--n-gpu-layers --gpu-layers -ngl", FlagTakes::kWord, FlagFate::kNotNeeded,
     "a model runs on one backend as a whole; --backend auto takes GPUs where there are"},
    {"--api-key --api-keys", FlagTakes::kWords, FlagFate::kRefused,
     "keys lie in files, because every user can read a command line: quire keygen --api NAME --file F, "
     "then --api-key-file F"},
    {"--hf-token -hft", FlagTakes::kWord, FlagFate::kRefused,
     "set HF_TOKEN in the environment: --fetch sends it to the hub, and no other user can read it"},
    {"--hf-file -hff", FlagTakes::kWord, FlagFate::kRefused,
     "name the kind of file behind the model, as in ORG/NAME:Q4_K_M, or give the file's path"},
    {"--model-url -mu --docker-repo -dr", FlagTakes::kWord, FlagFate::kRefused,
     "fetch the file, and give its path to --model"},
    {"--download-dir --huggingface-hub-cache", FlagTakes::kWord, FlagFate::kRefused, "set HF_HUB_CACHE to the folder"},
    {"--revision --code-revision --tokenizer-revision", FlagTakes::kWord, FlagFate::kRefused,
     "the cache's main revision is served: give the path of another snapshot to --model"},
    {"--tokenizer --tokenizer-path --hf-config-path", FlagTakes::kWord, FlagFate::kRefused,
     "the tokenizer and the configuration lie with the weights: give one directory that has all to --model"},
    {"--max-total-tokens", FlagTakes::kWord, FlagFate::kRefused,
     "use --max-model-len for one sequence (TGI), or --num-kv-blocks for the whole cache (SGLang)"},
    {"--max-input-length --max-input-tokens --max-req-input-len", FlagTakes::kWord, FlagFate::kRefused,
     "use --max-model-len, which bounds prompt and answer together"},
    {"--max-batch-total-tokens --max-batch-size", FlagTakes::kWord, FlagFate::kRefused,
     "use --num-kv-blocks and --max-num-seqs"},
    {"--max-concurrent-requests", FlagTakes::kWord, FlagFate::kRefused,
     "use --max-num-seqs for those that run, and --max-num-queued-reqs for those that wait"},
    {"--max-best-of --max-stop-sequences --max-top-n-tokens --max-client-batch-size --payload-limit "
     "--max-logprobs",
     FlagTakes::kWord, FlagFate::kRefused, "leave it out: docs/limits.md lists these limits, which are fixed"},
    {"--predict --n-predict -n", FlagTakes::kWord, FlagFate::kRefused, "use max_tokens in requests"},
    {"--temp --temperature --top-k --top-p --min-p --repeat-penalty --presence-penalty --frequency-penalty "
     "--override-generation-config --preferred-sampling-params",
     FlagTakes::kWord, FlagFate::kRefused,
     "set the fields in requests or in the model's generation_config.json; --generation-config chooses the "
     "defaults"},
    {"--system-prompt -sys --prompt --file -f", FlagTakes::kWord, FlagFate::kRefused,
     "put it into requests, or use quire chat --system"},
    {"--lora --lora-paths --lora-adapters --lora-scaled", FlagTakes::kWords, FlagFate::kRefused,
     "use --lora-modules NAME=PATH"},
    {"--speculative-model --model-draft -md --speculative-draft-model-path", FlagTakes::kWord, FlagFate::kRefused,
     "use --speculative-config '{\"method\": \"draft_model\", \"model\": PATH, \"num_speculative_tokens\": 4}'"},
    {"--draft-max --draft --num-speculative-tokens --speculative-algorithm --speculative-num-draft-tokens --speculate",
     FlagTakes::kWord, FlagFate::kRefused,
     "use --speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 8}'"},
    {"--context-parallel-size --prefill-context-parallel-size -pcp --decode-context-parallel-size -dcp",
     FlagTakes::kWord, FlagFate::kRefused, "use --tensor-parallel-size, or replicas (--data-parallel-size)"},
    {"--ep-size --ep --expert-parallel-size", FlagTakes::kWord, FlagFate::kRefused,
     "use --enable-expert-parallel, which takes the workers of -tp"},
    {"--nnodes --node-rank --dist-init-addr --master-addr --master-port --data-parallel-address "
     "--data-parallel-size-local --rpc",
     FlagTakes::kWord, FlagFate::kRefused,
     "name the nodes in a topology file (docs/serving.md, deploy/topologies/two_nodes.yaml)"},
    {"--headless", FlagTakes::kNothing, FlagFate::kRefused,
     "name the nodes in a topology file (docs/serving.md, deploy/topologies/two_nodes.yaml)"},
    {"--tensor-split -ts", FlagTakes::kWord, FlagFate::kRefused, "use --set \"parallel.shares=[2, 1]\""},
    {"--main-gpu -mg --split-mode -sm --base-gpu-id --gpu-ids -dev", FlagTakes::kWord, FlagFate::kRefused,
     "set CUDA_VISIBLE_DEVICES, or name devices in a topology file"},
    {"--cpu-offload-gb --n-cpu-moe -ncmoe --override-tensor -ot", FlagTakes::kWord, FlagFate::kRefused,
     "a model runs on one backend as a whole: use --backend cpu, --quantization, or more GPUs (-tp)"},
    {"--cpu-moe -cmoe", FlagTakes::kNothing, FlagFate::kRefused,
     "a model runs on one backend as a whole: use --backend cpu, --quantization, or more GPUs (-tp)"},
    {"--numa", FlagTakes::kSwitch, FlagFate::kRefused,
     "use one worker for each socket (-tp N); a worker keeps to its processors"},
    {"--mlock", FlagTakes::kNothing, FlagFate::kRefused, "weights are not locked: turn off the system's swap space"},
    {"--cache-type-v -ctv", FlagTakes::kWord, FlagFate::kRefused,
     "keys and values have one type: use --kv-cache-dtype"},
    {"--rope-scaling --rope-theta --rope-freq-base --rope-freq-scale --rope-scale --yarn-orig-ctx "
     "--hf-overrides --json-model-override-args --override-kv",
     FlagTakes::kWord, FlagFate::kRefused,
     "change config.json: --max-model-len goes as far as its scaling of positions reaches"},
    {"--mmproj -mm --mmproj-url", FlagTakes::kWord, FlagFate::kRefused,
     "only the text part of a model is served: leave it out"},
    {"--enable-force-include-usage", FlagTakes::kNothing, FlagFate::kRefused,
     "use stream_options.include_usage in requests"},
    {"-p", FlagTakes::kWord, FlagFate::kRefused, "use --port N"},
    {"--context-shift --keep", FlagTakes::kSwitch, FlagFate::kRefused,
     "Quire forgets no tokens in silence: use truncate_prompt_tokens in requests"},
    {"--root-path --api-prefix --path", FlagTakes::kWord, FlagFate::kRefused, "let a proxy change paths"},
    {"--ssl-ca-certs --ssl-cert-reqs", FlagTakes::kWord, FlagFate::kRefused,
     "clients are known by keys: use --api-key-file, or a proxy for certificates of clients"},
    {"--kv-transfer-config --disaggregation-mode --hicache-ratio", FlagTakes::kWord, FlagFate::kRefused,
     "use replicas (--data-parallel-size, parallel.prefill_replicas) and --swap-space"},
    {"--config", FlagTakes::kWord, FlagFate::kRefused,
     "give a topology file (.yaml): quire serve FILE; docs/settings.md lists the keys"},
    {"--api-key-file", FlagTakes::kWord, FlagFate::kRefused,
     "use --key-file FILE, whose first line is the key to send; --api-key-file is the server's list",
     FlagPlace::kClients},
    {"--admin-token-file", FlagTakes::kWord, FlagFate::kRefused,
     "use --key-file FILE, whose first line is the token to send; --admin-token-file is the server's list",
     FlagPlace::kClients},
    {"--api-key --openai-api-key", FlagTakes::kWord, FlagFate::kRefused,
     "use --key-file FILE, whose first line is the key to send", FlagPlace::kClients},
    {"--input-file -i", FlagTakes::kWord, FlagFate::kRefused, "give the file without a flag: quire batch run FILE",
     FlagPlace::kClients},
    {"--output-file", FlagTakes::kWord, FlagFate::kOurs, "--output", FlagPlace::kClients},
    {"-sys --system-prompt", FlagTakes::kWord, FlagFate::kOurs, "--system", FlagPlace::kClients},
};

// The values of flags whose FlagFate depends on the value.
constexpr ForeignValue kForeignValues[] = {
    {"--dtype", "half fp16 f16", FlagFate::kOurs, "--dtype float16"},
    {"--dtype", "float fp32 f32", FlagFate::kOurs, "--dtype float32"},
    {"--dtype", "bf16", FlagFate::kOurs, "--dtype bfloat16"},
    {"--quantization --quantize",
     "awq awq_marlin gptq gptq_marlin compressed-tensors gguf mxfp4 auto-round modelopt fbgemm_fp8 marlin "
     "exl2 eetq w8a8_fp8",
     FlagFate::kNotNeeded, "the files say how their weights are quantised"},
    {"--quantization --quantize", "bitsandbytes bitsandbytes-nf4 bitsandbytes-fp4 w8a8_int8 torchao hqq experts_int8",
     FlagFate::kRefused, "use --quantization int8 or int4 for plain weights; quantised files are read as they are"},
    {"--load-format", "safetensors gguf hf pt safetensors-fast fastsafetensors npcache mistral", FlagFate::kNotNeeded,
     "Quire sees the form of the files itself"},
    {"--kv-cache-dtype -ctk --cache-type-k", "fp8_e4m3 fp8_e4m3fn", FlagFate::kOurs, "--kv-cache-dtype fp8"},
    {"--kv-cache-dtype -ctk --cache-type-k", "f16 half fp16", FlagFate::kOurs, "--kv-cache-dtype float16"},
    {"--kv-cache-dtype -ctk --cache-type-k", "f32 float fp32", FlagFate::kOurs, "--kv-cache-dtype float32"},
    {"--kv-cache-dtype -ctk --cache-type-k", "q8_0", FlagFate::kOurs, "--kv-cache-dtype int8"},
    {"--kv-cache-dtype -ctk --cache-type-k", "q4_0 q4_1 q5_0 q5_1 iq4_nl fp8_e5m2", FlagFate::kRefused,
     "use --kv-cache-dtype int8 on CPUs, fp8 on GPUs"},
    {"--generation-config", "vllm", FlagFate::kOurs, "--generation-config none"},
    {"--attention-backend",
     "FLASH_ATTN FLASHINFER TRITON_ATTN TORCH_SDPA XFORMERS flashinfer triton fa3 fa4 torch_native "
     "flashmla",
     FlagFate::kNotNeeded, "Quire has kernels of its own"},
    {"--device", "gpu", FlagFate::kOurs, "--backend cuda"},
    {"--n-gpu-layers --gpu-layers -ngl", "0", FlagFate::kOurs, "--backend cpu"},
    {"--context-length --ctx-size -c", "0", FlagFate::kNotNeeded,
     "without --max-model-len the model's own length holds"},
    {"--max-model-len", "auto -1", FlagFate::kNotNeeded, "without --max-model-len the model's own length holds"},
    {"--chunked-prefill-size", "-1", FlagFate::kRefused,
     "long prompts are always cut: --max-num-batched-tokens says how long the pieces are"},
    {"--nnodes", "1", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--ep-size --ep --expert-parallel-size --context-parallel-size --prefill-context-parallel-size -pcp "
     "--decode-context-parallel-size -dcp",
     "1", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--cpu-offload-gb --n-cpu-moe -ncmoe --node-rank", "0", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--reasoning-budget", "-1", FlagFate::kNotNeeded, "thoughts have no budget without the flag"},
    {"--numa", "off false", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--cache-type-v -ctv", "f16 f32 bf16 q8_0", FlagFate::kNotNeeded,
     "keys and values have one type, that of --kv-cache-dtype or -ctk"},
    {"--data-parallel-rank --data-parallel-start-rank --mirostat --xtc-probability --dry-multiplier --dynatemp-range",
     "0", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--typical", "1 1.0", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--sharded", "false", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--hicache-size --kv-offloading-size", "0", FlagFate::kNotNeeded, "it is so without the flag"},
    {"--context-shift", "off false", FlagFate::kNotNeeded, "Quire never shifts"},
};

constexpr ForeignCommand kForeignCommands[] = {
    {"run", "start a server with quire serve MODEL, then talk to it with quire chat"},
    {"pull", "use quire serve ORG/NAME --fetch, which fetches what is missing"},
    {"list ls", "models lie in the Hugging Face cache, and GET /v1/models says what a server serves"},
    {"ps", "use quire top, which shows what runs"},
    {"stop", "send SIGTERM to the server: running requests may end"},
    {"show", "GET /v1/models says what is served, and /admin/config with which settings"},
    {"create", "a model is a directory or a GGUF file: quire serve PATH"},
    {"push cp rm", "Quire keeps no models of its own: use the files' own tools"},
    {"complete generate", "use quire chat, or POST /v1/completions"},
    {"run-batch", "use quire batch run FILE"},
    {"collect-env", "use quire check, which looks at all that a start needs"},
    {"launch launch_server api_server openai.api_server server", "use quire serve"},
    {"launcher text-generation-launcher llama-server", "use quire serve"},
    {"download", "use quire serve ORG/NAME --fetch, which fetches what is missing"},
    {"embed", "use quire serve, and POST /v1/embeddings"},
    {"signin signout login logout", "set HF_TOKEN in the environment: --fetch sends it to the hub"},
};

}  // namespace

std::span<const ForeignFlag> ForeignFlags() {
  static const std::vector<ForeignFlag> kAll = [] {
    std::vector<ForeignFlag> all(std::begin(kForeignFlags), std::end(kForeignFlags));
    const std::span<const ForeignFlag> more = ForeignTuningFlags();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return kAll;
}
std::span<const ForeignValue> ForeignValues() { return kForeignValues; }
std::span<const ForeignCommand> ForeignCommands() { return kForeignCommands; }

bool IsAmong(std::string_view list, std::string_view word) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(' ', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace quire
