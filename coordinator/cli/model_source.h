#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace quire {

/// Returns the cache folder of the Hugging Face tools: $HF_HUB_CACHE or its old name $HUGGINGFACE_HUB_CACHE, else
/// $HF_HOME/hub, else huggingface/hub in $XDG_CACHE_HOME or ~/.cache. Throws Error when the user has no home directory.
std::filesystem::path HuggingFaceCache();

/// True for text of the form ORG/NAME, as on Hugging Face, whether or not such a model exists.
bool IsModelName(const std::string& text);

/// True when the Hugging Face cache knows the main branch of ORG/NAME or ORG/NAME:KIND, whole or not.
bool IsCached(const std::string& name);

/// False for an ORG/NAME that is no path and that the Hugging Face cache lacks, or holds in part: without weights, or
/// without a file that the index of its weights names. False, too, for an ORG/NAME:KIND without a file of that kind.
/// True for all other text.
bool IsModelHere(const std::string& text);

/// Resolves the model that a user names. An existing file is used as it is. ORG/NAME is looked up in the Hugging Face
/// cache, at its main branch. ORG/NAME:KIND is the GGUF file there whose name has KIND, such as Q4_K_M, as a word. For
/// a folder without other weights its only GGUF model, split or not, is used. Other text is returned unchanged. Throws
/// Error when the cache has no such model, or with the files to choose from.
std::string FindModel(const std::string& text);

/// Returns the models in a directory, as names and paths, ordered by name: its folders that have a config.json or a
/// GGUF file, and its GGUF files, a split one once. Throws Error when there is none.
std::vector<std::pair<std::string, std::string>> ModelsIn(const std::string& directory);

}  // namespace quire
