#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/model/config_reader.h"
#include "comm/model/model_spec.h"
#include "comm/model/weight_spec.h"

namespace quire {

/// A family of models: how its files are read. The readers may leave `architecture` and, for HF, the end tokens to
/// SpecFromHf and SpecFromGguf, which call them; values are checked there, too. A GGUF reader whose architecture stands
/// for several families names the one that it found.
struct Architecture {
  const char* hf;    // "model_type" of config.json; null: there are none
  const char* gguf;  // "general.architecture" of GGUF; null: there are none, or another family's name is used
  ModelSpec (*from_hf)(const HfConfig&);
  ModelSpec (*from_gguf)(const GgufConfig&);
  std::vector<WeightSpec> (*weights)(const ModelSpec&);
  std::span<const char* const> hf_buffers =
      {};                         // ends of names of tensors that HF's older files have beside the weights
  bool predicts_further = false;  // files may have layers that predict tokens after the next
};

/// Reads HF's config.json (text) and, when not empty, generation_config.json; of a model that sees or hears as well,
/// its text model (comm/model/wrapper.h). Throws Error beginning with `path`, naming what is missing, out of range or
/// not supported: an unknown architecture, or a key that changes what is computed and that nobody has read.
ModelSpec SpecFromHf(const std::string& config_json, const std::string& generation_json, const std::string& path);

/// The same of a GGUF file's metadata.
ModelSpec SpecFromGguf(const GgufFile& gguf);

/// What only the names of HF's tensors tell: whether experts are stacked, as newer files have them.
void ReadLayout(const TensorMap& tensors, ModelSpec& spec);

/// Every weight of the model. Each role is there once or, where the model has no such weight, not at all.
std::vector<WeightSpec> WeightsOf(const ModelSpec& spec);

/// True of tensors that files may have beside the weights: what they say follows from the configuration or is read with
/// it, or the model does not use it.
bool MayBePresent(const ModelSpec& spec, std::string_view tensor_name, Naming naming);

/// Numbers of all matrices of the layers and the head that one unit of the axis stands for: what a rank reads per step
/// of one token for one more number of a query, for one more column of the MLP, for one more token of the vocabulary.
/// Of experts those that a token chooses.
int64_t MatrixNumbersPerUnit(const ModelSpec& spec, Axis axis);

/// The same of the matrices of each layer, the head left out: [layers].
std::vector<int64_t> LayerNumbersPerUnit(const ModelSpec& spec, Axis axis);

/// Numbers of all matrices of the layers, of experts those that a token chooses.
int64_t LayerMatrixNumbers(const ModelSpec& spec);

/// The part of the numbers of all matrices of the layers and the head that a step of so many tokens reads: all of it,
/// but of experts those that somebody chooses, on average where all are as likely.
double ReadPart(const ModelSpec& spec, int64_t tokens);

}  // namespace quire
