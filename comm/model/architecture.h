#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/model/config_reader.h"
#include "comm/model/model_spec.h"
#include "comm/model/weight_spec.h"

namespace quire {

/// The form of the layers that predict tokens after the next one, in a family's files
/// (architectures/prediction_layer.h).
enum class PredictionForm : uint8_t {
  kNone,          // files have no such layers
  kUnused,        // files may have such layers, and Quire does not use them
  kLikeDeepseek,  // in HF files, the layers follow the model's layers and are numbered with them
  kLikeQwen,      // in HF files, the names of their tensors begin with mtp
};

/// A model family: functions that read its files. A reader may leave `architecture` and, for HF, the end tokens to
/// SpecFromHf and SpecFromGguf, which call the readers and check the values. If a GGUF architecture name covers several
/// families, the reader sets the family that it found.
struct Architecture {
  const char* hf;    // "model_type" of config.json; null: the family has no HF files
  const char* gguf;  // "general.architecture" of GGUF; null: no GGUF files, or they use another family's name
  ModelSpec (*from_hf)(const HfConfig&);
  ModelSpec (*from_gguf)(const GgufConfig&);
  std::vector<WeightSpec> (*weights)(const ModelSpec&);
  std::span<const char* const> hf_buffers = {};  // ends of the names of tensors in older HF files that are no weights
  PredictionForm prediction = PredictionForm::kNone;
  /// Prefixes of tensors that files may have and Quire ignores, because they belong to HF's other classes of the same
  /// model, such as the heads for training.
  std::span<const char* const> hf_unused = {};
};

/// Replaces Infinity and NaN by null. Python writes these words into config.json, but JSON has no such numbers.
std::string WithoutInfinities(std::string json);

/// Reads HF's config.json (text) and, if not empty, generation_config.json. For a multimodal model, reads its text
/// model's configuration (comm/model/wrapper.h). Throws Error, which begins with `path`, for missing, invalid or
/// unsupported settings. An example is a key that changes the computation and that no reader has read.
ModelSpec SpecFromHf(const std::string& config_json, const std::string& generation_json, const std::string& path);

/// Reads the metadata of a GGUF file. Throws Error, which begins with the file's path, as SpecFromHf does.
ModelSpec SpecFromGguf(const GgufFile& gguf);

/// Returns the form of the prediction layers that the model's files may have.
PredictionForm PredictionFormOf(const ModelSpec& spec);

/// Sets the properties that only HF's tensor names show: whether the experts are stacked in one tensor, as in newer
/// files.
void ReadLayout(const TensorMap& tensors, ModelSpec& spec);

/// Returns every weight of the model. Each role occurs at most once.
std::vector<WeightSpec> WeightsOf(const ModelSpec& spec);

/// Returns true for a tensor that files may have besides the weights. Its content follows from the configuration, it is
/// read together with the configuration, or it has no use.
bool MayBePresent(const ModelSpec& spec, std::string_view tensor_name, Naming naming);

/// Returns how many numbers of the layers' and the head's matrices belong to one unit of `axis`. A unit is one number
/// of a query, one column of the MLP or one token of the vocabulary. A rank with one more unit reads this many more
/// numbers in a step of one token. Only the experts that a token chooses count.
int64_t MatrixNumbersPerUnit(const ModelSpec& spec, Axis axis);

/// Returns MatrixNumbersPerUnit for each layer separately, without the head: [layers].
std::vector<int64_t> LayerNumbersPerUnit(const ModelSpec& spec, Axis axis);

/// Returns how many numbers of each layer's matrices a token is multiplied with: [layers]. Experts that the token does
/// not choose do not count.
std::vector<int64_t> MatrixNumbersOfLayers(const ModelSpec& spec);

/// Returns the sum of MatrixNumbersOfLayers.
int64_t LayerMatrixNumbers(const ModelSpec& spec);

/// Returns the fraction of the numbers of all layer and head matrices that a step of `tokens` tokens reads. An expert
/// counts if at least one token chooses it, on average over equally likely choices.
double ReadPart(const ModelSpec& spec, int64_t tokens);

}  // namespace quire
