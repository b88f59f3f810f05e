#include "coordinator/api/requests/prediction.h"

namespace quire {

namespace {

[[noreturn]] void RefusePrediction() {
  JsonFields::Refuse("prediction",
                     "must be {\"type\": \"content\", \"content\": TEXT}, where TEXT is a string or a list of parts "
                     "{\"type\": \"text\", \"text\": \"...\"}");
}

const Json& PredictionMember(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) RefusePrediction();
  return object[name];
}

const std::string& TextOfPrediction(const Json& value) {
  if (!value.is_string()) RefusePrediction();
  return value.get_ref<const std::string&>();
}

/// Throws ApiError unless `object` has a member "type" with the value `type`, and no members besides "type" and `name`.
void CheckPredictionMembers(const Json& object, const char* type, const char* name) {
  if (TextOfPrediction(PredictionMember(object, "type")) != type) RefusePrediction();
  for (const auto& [key, value] : object.items()) {
    if (key != "type" && key != name) RefusePrediction();
  }
}

}  // namespace

std::string ReadPrediction(const JsonFields& fields) {
  const Json* prediction = fields.Find("prediction");
  if (prediction == nullptr) return "";
  CheckPredictionMembers(*prediction, "content", "content");
  const Json& content = PredictionMember(*prediction, "content");
  if (!content.is_array()) return TextOfPrediction(content);
  std::string text;
  for (const Json& part : content) {
    CheckPredictionMembers(part, "text", "text");
    text += TextOfPrediction(PredictionMember(part, "text"));
  }
  return text;
}

}  // namespace quire
