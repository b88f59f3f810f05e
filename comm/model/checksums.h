#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// Reads all files of a model and compares their hashes with a list in sha256sum's format ("HEX  NAME" on each line;
/// names relative to the model's directory). For an HF directory, every file *.json, *.jinja and *.safetensors must be
/// in the list. For a GGUF model, each of its files must be in the list, by its name without folders. Other lines are
/// ignored. Returns the number of bytes that were read. Throws Error with the file and a remedy. Cannot notice changes
/// after a file was read.
int64_t VerifyChecksums(const std::string& model_path, const std::string& list_path);

}  // namespace quire
