#include "coordinator/api/models/pooling_settings.h"

#include <algorithm>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/model_tree.h"
#include "coordinator/api/models/class_settings.h"

namespace quire {

namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int64_t kMaxVectorBytes = int64_t{40} << 20;  // for all vectors of one step; a frame has room for 64 MiB
constexpr size_t kMostPromptBytes = 16 << 10;           // put before each input
constexpr const char* kWithoutPooling = "the model's files name no pooling; --pooling last, mean or cls chooses one";

struct Found {
  Pooling pooling = Pooling::kNone;
  bool normalize = true;
  std::string why_none = kWithoutPooling;  // clients read this, so it names no path of the server
};

/// Returns the pooling that has this name in sentence-transformers; nullopt when it is not supported.
std::optional<Pooling> PoolingNamed(const std::string& name) {
  if (name == "lasttoken") return Pooling::kLast;
  if (name == "mean") return Pooling::kMean;
  if (name == "cls") return Pooling::kCls;
  return std::nullopt;
}

/// Returns the pooling for a setting other than kAuto.
Pooling PoolingOfMode(PoolingMode mode) {
  if (mode == PoolingMode::kLast) return Pooling::kLast;
  if (mode == PoolingMode::kMean) return Pooling::kMean;
  return mode == PoolingMode::kCls ? Pooling::kCls : Pooling::kNone;
}

Json ReadJson(const ModelTree& tree, const std::string& name) {
  return ParseJson(tree.ReadText(name, kMaxFileBytes), tree.PathOf(name));
}

/// Returns the mode in the config.json of a Pooling module: a name, or else the only flag that is set; "" if no flag is
/// set. Throws Error if several flags are set.
std::string ModeNamedIn(const Json& config, const std::string& path) {
  if (const auto mode = config.find("pooling_mode"); mode != config.end() && mode->is_string())
    return mode->get<std::string>();
  constexpr const char* kPrefix = "pooling_mode_";
  std::string found;
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with(kPrefix) || value != true) continue;
    if (!found.empty()) Fail("{}: several ways of pooling at once are not supported", path);
    found = key.substr(std::string_view(kPrefix).size());
  }
  if (found == "cls_token") return "cls";
  return found == "mean_tokens" ? "mean" : found;
}

/// Returns the pooling that sentence-transformers would build from this list of modules, read from file `name`.
Found FromList(const Json& modules, const ModelTree& tree, const char* name) {
  Found found;
  found.normalize = false;
  for (const Json& module : modules) {
    const std::string type = module.value("type", "");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling") {
      const std::string config = module.value("path", "1_Pooling") + "/config.json";
      const std::string mode = ModeNamedIn(ReadJson(tree, config), tree.PathOf(config));
      const std::optional<Pooling> pooling = PoolingNamed(mode);
      if (const Json json = ReadJson(tree, config); json.value("include_prompt", true) == false)
        return {Pooling::kNone, true, fmt::format("include_prompt = false ({}) is not supported", config)};
      if (!pooling) return {Pooling::kNone, true, fmt::format("pooling \"{}\" ({}) is not supported", mode, config)};
      found.pooling = *pooling;
    } else if (kind == "Normalize") {
      found.normalize = true;
    } else if (kind != "Transformer") {
      return {Pooling::kNone, true, fmt::format("{}: module {} is not supported", name, type)};
    }
  }
  return found;
}

/// Returns the pooling that sentence-transformers would build for the model in this directory; Pooling::kNone without
/// modules.json.
Found FromModules(const ModelTree& tree) {
  constexpr const char* kList = "modules.json";
  if (!tree.Has(kList)) return {};
  const Json modules = ReadJson(tree, kList);
  try {
    return FromList(modules, tree, kList);
  } catch (const Json::exception&) {
    Fail("{}: must be a list of modules, each with a type and a path that are texts", tree.PathOf(kList));
  }
}

Found FromGguf(const GgufFile& gguf) {
  Found found;
  const auto* name = gguf.Find<std::string>("general.architecture");
  const auto* type = name == nullptr ? nullptr : gguf.Find<int64_t>(*name + ".pooling_type");
  constexpr Pooling kTypes[] = {Pooling::kNone, Pooling::kMean, Pooling::kCls, Pooling::kLast};
  if (type != nullptr && *type >= 0 && *type < std::ssize(kTypes)) found.pooling = kTypes[*type];
  return found;
}

/// Returns the token whose text is `word`; nullopt when `word` is not one token.
std::optional<TokenId> TokenOf(const Tokenizer& tokenizer, const char* word) {
  const std::vector<TokenId> tokens = tokenizer.EncodePrompt(word, false);
  return tokens.size() == 1 ? std::optional(tokens.front()) : std::nullopt;
}

/// Reads the texts that sentence-transformers puts before inputs, and the name of the default text.
void ReadPrompts(const ModelTree& tree, PoolingOptions& options) {
  constexpr const char* kFile = "config_sentence_transformers.json";
  if (!tree.Has(kFile)) return;
  const Json config = ReadJson(tree, kFile);
  try {
    if (const auto prompts = config.find("prompts"); prompts != config.end() && !prompts->is_null())
      options.prompts = prompts->get<std::map<std::string, std::string>>();
    if (const auto name = config.find("default_prompt_name"); name != config.end() && !name->is_null())
      options.default_prompt = name->get<std::string>();
  } catch (const Json::exception&) {
    Fail("{}: prompts must be texts by name, and default_prompt_name one of the names", tree.PathOf(kFile));
  }
  if (!options.default_prompt.empty() && !options.prompts.contains(options.default_prompt))
    Fail("{}: there is no prompt {}", tree.PathOf(kFile), options.default_prompt.substr(0, 100));
  for (const auto& [name, text] : options.prompts) {
    if (text.size() > kMostPromptBytes)
      Fail("{}: the prompt {} has {} bytes, at most {} are allowed", tree.PathOf(kFile), name.substr(0, 100),
           text.size(), kMostPromptBytes);
  }
}

/// Returns the bytes of `rows` vectors of `length` numbers each.
int64_t StepBytes(int64_t rows, int64_t length) { return rows * length * static_cast<int64_t>(sizeof(float)); }

/// Sets the options for answers with a vector or a weight for every token of a text.
void SetTokens(const ModelSpec& spec, const Tokenizer& tokenizer, const Topology::Scheduler& scheduler,
               PoolingOptions& options) {
  const PooledHead& head = spec.pooled_head;
  options.sparse = head.sparse;
  options.colbert = head.colbert > 0;
  options.row = static_cast<int>(options.colbert ? head.colbert : spec.hidden_size);
  if (const std::vector<TokenId>& before = tokenizer.data().prefix; !before.empty()) options.opening = before.front();
  if (const std::vector<TokenId>& after = tokenizer.data().suffix; !after.empty()) options.closing = after.back();
  const int64_t longest = scheduler.max_model_len > 0 ? scheduler.max_model_len : spec.max_position;
  // A step computes at most `step` tokens. A longer text is computed in slices, and the step of its last slice returns
  // the vectors of all its tokens. So one step returns at most `step` vectors of texts that it computes whole, and at
  // most max(longest, step) vectors of sliced texts that it completes: of one text of any length, or of several texts
  // with `step` tokens together.
  const int64_t step = scheduler.max_step_tokens > 0 ? scheduler.max_step_tokens : std::max(512, scheduler.max_running);
  if (!spec.bidirectional) {
    options.no_tokens = "only encoders do";
  } else if (StepBytes(step + std::max(longest, step), options.row) > kMaxVectorBytes) {
    options.no_tokens = fmt::format("those of {} tokens are too much for one step; at most {} fit (--max-model-len)",
                                    longest, std::max<int64_t>(kMaxVectorBytes / StepBytes(1, options.row) - step, 0));
  }
}

/// Returns the options of a model with layers after pooling: a classifier, which scores pairs of texts if it has one
/// class.
PoolingOptions ClassifierOptions(const ModelFiles& model, const Tokenizer& tokenizer, const Topology& topology) {
  const Topology::Model& settings = topology.model;
  const PooledHead& head = model.spec().pooled_head;
  const ModelTree tree(model.path());
  const Json config = ReadJson(tree, "config.json");
  PoolingOptions options;
  options.encoder = true;
  options.by_pair = head.outputs == 1;
  options.hidden = static_cast<int>(head.outputs);
  options.pooling = head.mean ? Pooling::kMean : Pooling::kCls;
  options.class_scale = ScaleOf(config, head.outputs, tree.PathOf("config.json"));
  options.labels =
      std::make_shared<const std::vector<std::string>>(LabelsOf(config, head.outputs, tree.PathOf("config.json")));
  options.sigmoid = options.class_scale == ClassScale::kSigmoid;
  SetTokens(model.spec(), tokenizer, topology.scheduler, options);
  if (options.by_pair) {
    options.no_pooling = "the model scores pairs of texts (POST /v1/rerank, /v1/score)";
    options.no_answers = "the model has no output head: it only scores pairs of texts (POST /v1/rerank, /v1/score)";
    if (!tokenizer.data().pair) Fail("{}: the tokenizer says nothing about pairs of texts", model.path());
  } else {
    options.no_pooling = options.no_scores = "the model sorts texts into classes (POST /classify)";
    options.no_answers = "the model has no output head: it only sorts texts into classes (POST /classify)";
    if (StepBytes(topology.scheduler.max_running, head.outputs) > kMaxVectorBytes) {
      Fail("{} classes of {} sequences (--max-num-seqs) are too much for one step; at most {} sequences fit",
           head.outputs, topology.scheduler.max_running, kMaxVectorBytes / StepBytes(1, head.outputs));
    }
  }
  if (settings.pooling != PoolingMode::kAuto && settings.pooling != PoolingMode::kNone)
    Fail("--pooling {}: {}", NameOf(settings.pooling), options.no_pooling);
  if (settings.scoring == ScoringMode::kNone) options.no_scores = "--scoring none says so";
  if (settings.scoring == ScoringMode::kCrossEncoder && !options.by_pair)
    Fail("--scoring cross-encoder: {}", options.no_scores);
  if (settings.scoring == ScoringMode::kCosine || settings.scoring == ScoringMode::kYesNo) {
    Fail("--scoring {}: {}", NameOf(settings.scoring),
         options.by_pair ? "the model reads both texts of a pair together (cross-encoder)" : options.no_scores);
  }
  return options;
}

/// Finds the tokens for "yes" and "no" with which pairs are scored, or the reason why pairs cannot be scored.
void FindAnswers(const Tokenizer& tokenizer, PoolingOptions& options) {
  const auto is_control = [&](const char* text) {
    const std::optional<TokenId> token = TokenOf(tokenizer, text);
    return token && tokenizer.IsSpecial(*token);
  };
  const std::optional<TokenId> no = TokenOf(tokenizer, "no"), yes = TokenOf(tokenizer, "yes");
  if (no && yes && is_control("<|im_start|>") && is_control("<|im_end|>")) {
    options.by_answer = true;
    options.answers = {*no, *yes};
  } else {
    options.no_scores =
        "the model has no pooling (--pooling), and its tokens yes, no, <|im_start|> and <|im_end|>, by which pairs are "
        "scored without, are not one each";
  }
}

}  // namespace

PoolingOptions PoolingOf(const ModelFiles& model, const Tokenizer& tokenizer, const Topology& topology) {
  if (model.spec().pooled_head.outputs > 0) return ClassifierOptions(model, tokenizer, topology);
  const Topology::Model& settings = topology.model;
  const int max_running = topology.scheduler.max_running;
  PoolingOptions options;
  SetTokens(model.spec(), tokenizer, topology.scheduler, options);
  options.encoder = model.spec().bidirectional;
  options.hidden = static_cast<int>(model.spec().hidden_size);
  if (model.gguf() == nullptr) ReadPrompts(ModelTree(model.path()), options);
  Found found;
  const bool by_files = settings.pooling == PoolingMode::kAuto;
  if (by_files) {
    found = model.gguf() != nullptr ? FromGguf(*model.gguf()) : FromModules(ModelTree(model.path()));
  } else {
    found = {PoolingOfMode(settings.pooling), true, "--pooling none says so"};
  }
  if (found.pooling != Pooling::kNone && StepBytes(max_running, options.hidden) > kMaxVectorBytes) {
    found = {Pooling::kNone, true,
             fmt::format("the vectors of {} sequences (--max-num-seqs) are too much for one step; at most {} fit",
                         max_running, kMaxVectorBytes / StepBytes(1, options.hidden))};
    if (!by_files) Fail("--pooling {}: {}", NameOf(settings.pooling), found.why_none);
  }
  options.pooling = found.pooling;
  options.normalize = found.normalize;
  if (found.pooling == Pooling::kNone) options.no_pooling = found.why_none;

  const bool has_vectors = found.pooling != Pooling::kNone;
  if (!model.spec().has_head)
    options.no_answers = "the model's files have no output head: it makes embeddings only (POST /v1/embeddings)";
  if (settings.scoring == ScoringMode::kCrossEncoder)
    Fail("--scoring cross-encoder: the model has no layers that score pairs of texts");
  if (settings.scoring == ScoringMode::kNone) {
    options.no_scores = "--scoring none says so";
  } else if (settings.scoring == ScoringMode::kCosine) {
    if (!has_vectors) Fail("--scoring cosine: {}", options.no_pooling);
  } else if (settings.scoring == ScoringMode::kYesNo || !has_vectors) {
    options.no_scores = options.no_answers;
    if (options.no_answers.empty()) FindAnswers(tokenizer, options);
    if (settings.scoring == ScoringMode::kYesNo && !options.by_answer) Fail("--scoring yes-no: {}", options.no_scores);
  }
  return options;
}

PoolingMode ModeOf(Pooling pooling) {
  static constexpr PoolingMode kModes[] = {PoolingMode::kNone, PoolingMode::kLast, PoolingMode::kMean,
                                           PoolingMode::kCls};
  return kModes[static_cast<size_t>(pooling)];
}

ScoringMode ScoringOf(const PoolingOptions& options) {
  if (!options.no_scores.empty()) return ScoringMode::kNone;
  if (options.by_pair) return ScoringMode::kCrossEncoder;
  return options.by_answer ? ScoringMode::kYesNo : ScoringMode::kCosine;
}

}  // namespace quire
