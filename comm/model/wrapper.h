#pragma once

#include <span>
#include <string>

#include "comm/base/json_fwd.h"
#include "comm/model/config_reader.h"

namespace quire {

/// A model that sees or hears as well as it reads: its config.json has that of its text model inside, under
/// "text_config". The text model alone is served.
struct Wrapper {
  const char* hf;    // "model_type" of the whole
  const char* text;  // "model_type" of the text model where text_config names none
  bool tied;         // the text model's head is its embedding where the whole does not say
  bool flat;         // older files have the text model's keys beside those of the whole, without a text_config
};

std::span<const Wrapper> Wrappers();

/// The wrapper with this "model_type", or null.
const Wrapper* FindWrapper(const std::string& model_type);

/// The text model's configuration, with a "model_type" and with the sizes that files of the family leave out because
/// they are its usual ones. Throws Error where there is none.
Json TextConfigOf(const Wrapper& wrapper, const HfConfig& whole);

/// Whether the text model's head is its embedding where the tensors leave it open: either part of the file may say so.
bool TiesHead(const Wrapper& wrapper, const HfConfig& whole, const HfConfig& text);

}  // namespace quire
