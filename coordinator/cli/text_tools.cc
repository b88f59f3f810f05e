#include "coordinator/cli/text_tools.h"

#include <spdlog/spdlog.h>

#include "comm/base/error.h"
#include "comm/model/checksums.h"
#include "coordinator/text/vocabulary_of.h"

namespace quire {

TextTools::TextTools(const ModelFiles& model, const Topology& topology) : tokenizer(TokenizerDataOf(model)) {
  const Topology::Model& settings = topology.model;
  if (tokenizer.vocab_size() > model.spec().vocab_size) {
    Fail("{}: the tokenizer has {} tokens, the model {}", model.path(), tokenizer.vocab_size(),
         model.spec().vocab_size);
  }
  try {
    chat = std::make_unique<ChatTemplate>(tokenizer.data());
    answer_format = FormatOfTemplate(chat->source());
  } catch (const Error& error) {
    no_chat_reason = error.what();
  }
  chosen_format = settings.tool_call_parser != "auto";
  if (chosen_format) answer_format.tools = ToolFormatNamed(settings.tool_call_parser).value();
  if (settings.reasoning_parser != "auto")
    answer_format.reasoning = ReasoningFormatNamed(settings.reasoning_parser).value();
  vocabulary =
      std::make_shared<const Vocabulary>(VocabularyOf(tokenizer, model.spec().eos_token_ids, MarkersOf(answer_format)));
  pooling = PoolingOf(model, tokenizer, settings, topology.scheduler.max_running);
  request.vocab_size = static_cast<int>(model.spec().vocab_size);
  request.defaults = SamplingDefaultsOf(model, settings);
  if (request.defaults != SamplingDefaults())
    spdlog::info("the model's defaults of sampling: {}", DescribeDefaults(request.defaults));
  unknown = std::make_unique<UnknownFields>(topology.server.ignore_unknown_fields);
  request.unknown = unknown.get();
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
  if (request.defaults == SamplingDefaults()) settings.generation_config = GenerationConfigMode::kNone;
}

ModelFiles OpenModel(const Topology::Model& model) {
  if (!model.checksums.empty()) {
    const int64_t bytes = VerifyChecksums(model.path, model.checksums);
    spdlog::info("{}: {:.1f} MiB are what {} says", model.path, static_cast<double>(bytes) / (1 << 20),
                 model.checksums);
  }
  return ModelFiles::Open(model.path, model.load_format);
}

}  // namespace quire
