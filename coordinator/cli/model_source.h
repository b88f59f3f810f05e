#pragma once

#include <filesystem>
#include <string>

namespace quire {

/// The folder in which the Hugging Face tools keep what they fetch: $HF_HUB_CACHE or, as it was called before,
/// $HUGGINGFACE_HUB_CACHE, else $HF_HOME/hub, else huggingface/hub in $XDG_CACHE_HOME or ~/.cache. Throws Error when
/// the user has no home.
std::filesystem::path HuggingFaceCache();

/// True for ORG/NAME as models are called on Hugging Face, whether there is such a model or not.
bool IsModelName(const std::string& text);

/// The path of the model that a user means: a file that exists is taken as it is; ORG/NAME of no file is looked up in
/// the Hugging Face cache, where the snapshot of its main branch is taken. Of a folder with no weights but one GGUF
/// model, split or not, that is meant. Other text is returned unchanged. Throws Error with the command that fetches the
/// model, or with the files to choose from.
std::string FindModel(const std::string& text);

}  // namespace quire
