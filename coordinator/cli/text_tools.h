#pragma once

#include <memory>
#include <string>

#include "comm/grammar/vocabulary.h"
#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/cli/generation_settings.h"
#include "coordinator/cli/pooling_settings.h"
#include "coordinator/text/answers/answer_format.h"
#include "coordinator/text/chat_template.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// What a model's texts are made and read with: the tokenizer and, when the model has one that we can read, its chat
/// template. Throws Error for a tokenizer that does not fit the model.
struct TextTools {
  TextTools(const ModelFiles& model, const Topology& topology);

  /// What requests may ask for where sequences have that length and calls so many choices.
  RequestLimits LimitsWith(int max_model_len, int max_choices) const;
  /// Puts what "auto" came to into the settings.
  void NoteChoices(Topology::Model& settings) const;

  Tokenizer tokenizer;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<ChatTemplate> chat;
  std::string no_chat_reason;
  AnswerFormat answer_format;  // of chats
  bool chosen_format = false;  // of calls: it is a setting, and not the template's
  PoolingOptions pooling;
  std::unique_ptr<UnknownFields> unknown;
  RequestLimits request;  // what model and settings say of it

 private:
  void CheckVocabulary(const ModelFiles& model) const;
};

/// The model, whose files are compared with their checksums first where the settings name any. Throws Error.
ModelFiles OpenModel(const Topology::Model& model);

}  // namespace quire
