#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace quire {

/// Returns the cache folder of the Hugging Face tools: $HF_HUB_CACHE or its old name $HUGGINGFACE_HUB_CACHE, otherwise
/// $HF_HOME/hub, otherwise huggingface/hub in $XDG_CACHE_HOME or ~/.cache. Throws Error when the user has no home
/// directory.
std::filesystem::path HuggingFaceCache();

/// True for text of the form ORG/NAME, which Hugging Face uses, whether or not such a model exists.
bool IsModelName(const std::string& text);

/// True when the Hugging Face cache has the main branch of ORG/NAME or ORG/NAME:KIND, complete or not.
bool IsCached(const std::string& name);

/// False for an ORG/NAME that is no path and that the Hugging Face cache lacks or has only in part: without weights, or
/// without a file that the index of its weights names. Also returns false for an ORG/NAME:KIND without a file of that
/// kind. Returns true for all other text.
bool IsModelHere(const std::string& text);

/// Resolves the model that a user names. An existing file is returned unchanged. ORG/NAME is looked up in the Hugging
/// Face cache, in its main branch. ORG/NAME:KIND is the GGUF file there whose name has KIND, such as Q4_K_M, as a word.
/// For a folder whose only weights are one GGUF model, split or not, the model's path is returned. Other text is
/// returned unchanged. Throws Error if the text is a name in Ollama's form, such as llama3:8b, if the cache has no such
/// model, or, with the list of files, if there are several to choose from.
std::string FindModel(const std::string& text);

/// Returns the models in a directory, as names and paths, ordered by name: its folders that have a config.json or a
/// GGUF file, and its GGUF files, where a split model counts once. Throws Error when there is no model.
std::vector<std::pair<std::string, std::string>> ModelsIn(const std::string& directory);

}  // namespace quire
