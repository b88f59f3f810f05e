#pragma once

#include <memory>
#include <string>

#include "comm/grammar/vocabulary.h"
#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/models/generation_settings.h"
#include "coordinator/api/models/pooling_settings.h"
#include "coordinator/text/answers/answer_format.h"
#include "coordinator/text/templates/chat_template.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// The tools with which a model handles text: its tokenizer, its chat template if it has a readable one, the format of
/// its chat answers, its pooling, and its sampling defaults. The constructor throws Error for a tokenizer that does not
/// fit the model, and for broken files.
struct TextTools {
  TextTools(const ModelFiles& model, const Topology& topology);

  /// Returns the limits of requests, for sequences of max_model_len tokens and max_choices choices per call.
  RequestLimits LimitsWith(int max_model_len, int max_choices) const;
  /// Replaces "auto" in the settings by the formats that are in use for this model.
  void NoteChoices(Topology::Model& settings) const;

  Tokenizer tokenizer;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<ChatTemplate> chat;
  std::string no_chat_reason;
  AnswerFormat answer_format;  // form of tool calls and thoughts in chats
  PoolingOptions pooling;
  std::unique_ptr<UnknownFields> unknown;
  ChosenSampling sampling;
  RequestLimits request;  // limits from model and settings

 private:
  void ChooseFormat(const Topology::Model& settings);
  void CheckVocabulary(const ModelFiles& model) const;
};

/// Opens the model. If the settings name a checksum file, first compares the model's files with it. Throws Error when a
/// file is missing, cannot be read or differs from its checksum.
ModelFiles OpenModel(const Topology::Model& model);

}  // namespace quire
