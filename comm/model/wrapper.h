#pragma once

#include <span>
#include <string>

#include "comm/base/json_fwd.h"
#include "comm/model/config_reader.h"

namespace quire {

/// A multimodal model. Its config.json contains the text model's configuration under "text_config". Only the text model
/// is served.
struct Wrapper {
  const char* hf;    // "model_type" of the multimodal model
  const char* text;  // "model_type" of the text model if text_config has none
  bool tied;         // default for sharing the text model's head with its embedding
  bool flat;         // older files have the text model's keys at top level, without text_config
};

std::span<const Wrapper> Wrappers();

/// Returns the wrapper with this "model_type", or null.
const Wrapper* FindWrapper(const std::string& model_type);

/// Returns the text model's configuration, with "model_type" and with the default sizes that files of the family may
/// omit. Throws Error when there is no such configuration.
Json TextConfigOf(const Wrapper& wrapper, const HfConfig& whole);

/// Returns true when the configuration says that the text model's head is its embedding. The wrapper's part or the text
/// model's part of the file may say it. ModelFiles::SettleHead later corrects this by the tensors.
bool TiesHead(const Wrapper& wrapper, const HfConfig& whole, const HfConfig& text);

}  // namespace quire
