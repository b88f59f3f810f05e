#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// Reads all of a model's files and compares them with a list as sha256sum writes it ("HEX  NAME", a line each; names
/// relative to the model's directory). Of an HF directory these are all files *.json, *.jinja and *.safetensors, each
/// of which must be in the list; of a GGUF file it is that file, by its name without folders. Other lines are left
/// alone. Returns the bytes that were read. Throws Error that names the file, and what to do. It says nothing about
/// changes after it has read a file.
int64_t VerifyChecksums(const std::string& model_path, const std::string& list_path);

}  // namespace quire
