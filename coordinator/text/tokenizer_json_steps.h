#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/text/metaspace.h"
#include "coordinator/text/normalizer.h"
#include "coordinator/text/pre_tokenizer.h"

namespace quire {

// The steps before and after the model in a tokenizer.json. `path` is the file's, for errors: a step that is not known,
// or one of its settings, is refused by its name.

/// The kind of a step; empty: there is none.
std::string TypeOf(const Json& node);
/// A member of an object; null when it has none of that name.
const Json& Part(const Json& json, const char* key);

/// Appends what "normalizer" says.
void ReadNormalizer(const Json& node, const std::string& path, std::vector<NormalizerStep>& steps);

struct PreTokenizerSteps {
  std::vector<PreTokenizerStep> steps;
  bool byte_level = false;   // the vocabulary is written in the alphabet of bytes
  bool in_alphabet = false;  // .. and so are the last steps' texts
};
PreTokenizerSteps ReadPreTokenizer(const Json& node, const std::string& path);

/// How tokens that are text are put together again. Throws Error when it does not say what "▁" is.
Metaspace ReadTextDecoder(const Json& node, const std::string& path);
/// Throws Error when the decoder of a vocabulary in the alphabet of bytes does anything but read that.
void CheckByteLevelDecoder(const Json& node, const std::string& path);

}  // namespace quire
