#pragma once

#include "comm/model/model_files.h"

namespace quire {

/// Checks that every token has the same text in the tokenizers of both models. One of the tokenizers may have
/// additional tokens without text at its end. Throws SettingsError that names both models and the first token that
/// differs.
void CheckSameTokens(const ModelFiles& draft, const ModelFiles& served);

}  // namespace quire
