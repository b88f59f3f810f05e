#include "coordinator/api/models/class_settings.h"

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr size_t kMostClassNameBytes = 1024;  // answers repeat a class's name for each input

}  // namespace

ClassScale ScaleOf(const Json& config, int64_t outputs, const std::string& path) {
  std::string function;
  const auto read = [&](const Json& from, const char* key) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return;
    if (!found->is_string()) Fail("{}: {} is no text", path, key);
    function = found->get<std::string>();
  };
  read(config, "sbert_ce_default_activation_function");
  if (const auto ours = config.find("sentence_transformers"); ours != config.end() && ours->is_object())
    read(*ours, "activation_fn");
  if (function.ends_with(".Sigmoid")) return ClassScale::kSigmoid;
  if (function.ends_with(".Identity")) return ClassScale::kNone;
  if (function.ends_with(".Softmax")) return ClassScale::kSoftmax;
  if (!function.empty())
    Fail("{}: the activation function {} of scores is not supported", path, function.substr(0, 100));
  const auto problem = config.find("problem_type");
  const std::string kind = problem != config.end() && problem->is_string() ? problem->get<std::string>() : "";
  if (kind == "regression") return ClassScale::kNone;
  return outputs == 1 || kind == "multi_label_classification" ? ClassScale::kSigmoid : ClassScale::kSoftmax;
}

std::vector<std::string> LabelsOf(const Json& config, int64_t outputs, const std::string& path) {
  std::vector<std::string> labels;
  const auto named = config.find("id2label");
  for (int64_t i = 0; i < outputs; ++i) {
    const std::string number = std::to_string(i);
    const bool is_named = named != config.end() && named->is_object() && named->contains(number);
    const Json name = is_named ? named->at(number) : Json("LABEL_" + number);
    if (!name.is_string()) Fail("{}: id2label: the name of class {} is no text", path, number);
    labels.push_back(name.get<std::string>());
    if (labels.back().size() > kMostClassNameBytes)
      Fail("{}: id2label: the name of class {} has {} bytes, at most {} are allowed", path, number,
           labels.back().size(), kMostClassNameBytes);
  }
  return labels;
}

}  // namespace quire
