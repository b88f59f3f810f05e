#include "coordinator/api/models/text_tools.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/model/checksums.h"
#include "coordinator/text/answers/tool_prompt.h"
#include "coordinator/text/tokenizer/vocabulary_of.h"

namespace quire {

namespace {

constexpr int64_t kMostBeyond = 256;  // added tokens without an embedding, at most

/// Returns the vocabulary without the tokens that have no row in the model's embedding.
Vocabulary KnownTo(const ModelSpec& spec, Vocabulary vocabulary) {
  const auto known = static_cast<size_t>(spec.vocab_size);
  vocabulary.bytes.resize(std::min(vocabulary.bytes.size(), known));
  return vocabulary;
}

/// Reads the model's tokenizer. template_file: a chat template that replaces the model's own; empty: use the model's
/// own.
TokenizerData DataOf(const ModelFiles& model, const std::string& template_file) {
  TokenizerData data = TokenizerDataOf(model);
  if (!template_file.empty()) data.chat_template = ReadChatTemplate(template_file);
  return data;
}

/// Returns the model's tokenizer. Throws Error with the model's path.
Tokenizer TokenizerOf(const ModelFiles& model, const std::string& template_file) {
  TokenizerData data = DataOf(model, template_file);
  try {
    return Tokenizer(std::move(data));
  } catch (const Error& error) {
    Fail("{}: {}", model.path(), error.what());
  }
}

}  // namespace

TextTools::TextTools(const ModelFiles& model, const Topology& topology)
    : tokenizer(TokenizerOf(model, topology.model.chat_template)) {
  const Topology::Model& settings = topology.model;
  CheckVocabulary(model);
  try {
    chat = std::make_unique<ChatTemplate>(tokenizer.data());
  } catch (const Error& error) {
    no_chat_reason = error.what();
  }
  ChooseFormat(settings);
  vocabulary = std::make_shared<const Vocabulary>(
      KnownTo(model.spec(), VocabularyOf(tokenizer, model.spec().eos_token_ids, MarkersOf(answer_format))));
  pooling = PoolingOf(model, tokenizer, topology);
  request.vocab_size = static_cast<int>(model.spec().vocab_size);
  request.only_pools = model.spec().bidirectional;
  sampling = SamplingDefaultsOf(model, settings);
  request.defaults = sampling.values;
  if (!request.only_pools) spdlog::info("requests that say nothing draw with {}", DescribeDefaults(sampling));
  unknown = std::make_unique<UnknownFields>(topology.server.ignore_unknown_fields);
  request.unknown = unknown.get();
}

/// Chooses the formats of tool calls and thoughts: from the settings, or else from the chat template. If the template
/// shows no tools, chooses a format of calls that the prompt then explains.
void TextTools::ChooseFormat(const Topology::Model& settings) {
  if (chat != nullptr) answer_format = FormatOfTemplate(chat->source());
  if (settings.reasoning_parser != "auto")
    answer_format.reasoning = ReasoningFormatNamed(settings.reasoning_parser).value();
  if (settings.tool_call_parser != "auto") {
    answer_format.tools = ToolFormatNamed(settings.tool_call_parser).value();
    return;
  }
  if (chat == nullptr || chat->traits().tools || answer_format.reasoning == ReasoningFormat::kHarmony) return;
  if (!JsonCallFormOf(answer_format.tools)) answer_format.tools = ToolFormat::kGeneric;
  spdlog::info(
      "the chat template shows no tools: a system message describes those that requests bring, and asks for calls in "
      "the "
      "form {} (--tool-call-parser)",
      NameOf(answer_format.tools));
}

/// Throws Error when a token has no row in the embedding, because the tokenizer then belongs to another model. Up to
/// kMostBeyond added tokens may lack a row, such as image tokens in the files of a text model; prompts with such tokens
/// are refused.
void TextTools::CheckVocabulary(const ModelFiles& model) const {
  const auto known = model.spec().vocab_size;
  const auto is_added = [&](TokenId token) {
    return std::ranges::find(tokenizer.data().added, token, &AddedToken::id) != tokenizer.data().added.end();
  };
  const auto is_around = [&](TokenId token) {
    const TokenizerData& data = tokenizer.data();
    return std::ranges::count(data.prefix, token) + std::ranges::count(data.suffix, token) > 0;
  };
  std::vector<TokenId> beyond;
  for (auto token = static_cast<TokenId>(known); token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.Bytes(token).empty()) continue;
    if (std::ssize(beyond) == kMostBeyond || !is_added(token) || is_around(token)) {
      Fail("{}: the tokenizer has {} tokens, the model {}: are they files of one model?", model.path(),
           tokenizer.vocab_size(), known);
    }
    beyond.push_back(token);
  }
  if (beyond.empty()) return;
  spdlog::warn("{}: the model has no embedding for tokens {}: prompts with one are refused", model.path(),
               fmt::join(beyond, ", "));
}

RequestLimits TextTools::LimitsWith(int max_model_len, int max_choices) const {
  RequestLimits limits = request;
  limits.max_model_len = max_model_len;
  limits.max_choices = max_choices;
  return limits;
}

void TextTools::NoteChoices(Topology::Model& settings) const {
  settings.tool_call_parser = NameOf(answer_format.tools);
  settings.reasoning_parser = NameOf(answer_format.reasoning);
  settings.pooling = ModeOf(pooling.pooling);
  settings.scoring = ScoringOf(pooling);
  settings.generation_config = sampling.source;
}

ModelFiles OpenModel(const Topology::Model& model) {
  if (!model.checksums.empty()) {
    const int64_t bytes = VerifyChecksums(model.path, model.checksums);
    spdlog::info("{}: {:.1f} MiB are what {} says", model.path, static_cast<double>(bytes) / (1 << 20),
                 model.checksums);
  }
  ModelFiles files = ModelFiles::Open(model.path, model.load_format, model.AdapterPaths());
  for (const std::string& note : files.notes()) spdlog::warn("{}", note);
  return files;
}

}  // namespace quire
