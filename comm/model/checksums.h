#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// Reads all files of a model and compares their hashes with a list in sha256sum's format ("HEX  NAME" on each line;
/// names are relative to the model's directory). For an HF directory, the list must contain every file *.json, *.jinja
/// and *.safetensors. For a GGUF model, the list must contain each of its files, by its name without folders. Other
/// lines are ignored. Returns the number of bytes read. Throws Error, which names the file and a remedy, when the list
/// lacks a file or has another hash for it. Does not notice changes that are made after a file was read.
int64_t VerifyChecksums(const std::string& model_path, const std::string& list_path);

}  // namespace quire
