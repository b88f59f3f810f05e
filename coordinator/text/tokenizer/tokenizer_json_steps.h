#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/text/tokenizer/metaspace.h"
#include "coordinator/text/tokenizer/normalizer.h"
#include "coordinator/text/tokenizer/pre_tokenizer.h"

namespace quire {

// Functions that read the steps before and after the model in a tokenizer.json. `path`: the file's path, for errors.
// Unknown steps and settings are refused by name.

/// Returns the type of a step; empty when there is no step.
std::string TypeOf(const Json& node);
/// Returns a member of an object; null when it is missing.
const Json& Part(const Json& json, const char* key);

/// Appends the steps of "normalizer".
void ReadNormalizer(const Json& node, const std::string& path, std::vector<NormalizerStep>& steps);

struct PreTokenizerSteps {
  std::vector<PreTokenizerStep> steps;
  bool byte_level = false;   // the vocabulary is written in the byte alphabet
  bool in_alphabet = false;  // the last step's texts are in the byte alphabet
};
PreTokenizerSteps ReadPreTokenizer(const Json& node, const std::string& path);

/// Reads the decoder, which joins the texts of tokens. Throws Error for a decoder with unsupported steps, and for one
/// that does not give "▁" a meaning.
Metaspace ReadTextDecoder(const Json& node, const std::string& path);
/// Throws Error when a byte-level vocabulary's decoder does more than decode the byte alphabet.
void CheckByteLevelDecoder(const Json& node, const std::string& path);

}  // namespace quire
