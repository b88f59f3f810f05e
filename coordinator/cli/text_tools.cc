#include "coordinator/cli/text_tools.h"

#include <spdlog/spdlog.h>

#include "comm/base/error.h"
#include "comm/model/checksums.h"
#include "coordinator/text/vocabulary_of.h"

namespace quire {

TextTools::TextTools(const ModelFiles& model, const Topology::Model& settings) : tokenizer(TokenizerDataOf(model)) {
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
