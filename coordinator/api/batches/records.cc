#include "coordinator/api/batches/records.h"

#include <algorithm>
#include <array>
#include <span>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::array<std::string_view, kBatchStatuses> kNames = {"validating", "failed",  "in_progress", "finalizing",
                                                                 "completed",  "expired", "cancelling",  "cancelled"};

Json OrNull(int64_t time) { return time == 0 ? Json() : Json(time); }
Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

BatchStatus StatusNamed(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<BatchStatus>(i);
  }
  Fail("\"{}\" is no status of a batch", name);
}

Json FaultsJson(const std::vector<BatchFault>& faults, size_t most = SIZE_MAX) {
  Json list = Json::array();
  for (const BatchFault& fault : std::span(faults).first(std::min(most, faults.size()))) {
    list.push_back({{"code", fault.code},
                    {"message", fault.message},
                    {"param", OrNull(fault.param)},
                    {"line", OrNull(fault.line)}});
  }
  return list;
}

std::vector<BatchFault> FaultsFrom(const Json& list) {
  std::vector<BatchFault> faults;
  for (const Json& one : list) {
    BatchFault fault{one.at("code").get<std::string>(), one.at("message").get<std::string>(), "", 0};
    if (one.at("param").is_string()) fault.param = one["param"].get<std::string>();
    if (one.at("line").is_number()) fault.line = one["line"].get<int64_t>();
    faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace

std::string_view NameOf(BatchStatus status) { return kNames[static_cast<size_t>(status)]; }

bool IsOver(BatchStatus status) {
  return status == BatchStatus::kFailed || status == BatchStatus::kCompleted || status == BatchStatus::kExpired ||
         status == BatchStatus::kCancelled;
}

Json FileRecord::ToPublic() const {
  return {{"id", id},
          {"object", "file"},
          {"bytes", bytes},
          {"created_at", created_at},
          {"expires_at", OrNull(expires_at)},
          {"filename", filename},
          {"purpose", purpose},
          {"status", "processed"},
          {"status_details", nullptr}};
}

Json FileRecord::ToJson() const {
  return {{"id", id},       {"client", client},         {"filename", filename},     {"purpose", purpose},
          {"bytes", bytes}, {"created_at", created_at}, {"expires_at", expires_at}, {"order", order}};
}

FileRecord FileRecord::FromJson(const Json& json) {
  const auto text = [&](const char* name) { return json.at(name).get<std::string>(); };
  const auto number = [&](const char* name) { return json.at(name).get<int64_t>(); };
  return {text("id"),      text("client"),       text("filename"),     text("purpose"),
          number("bytes"), number("created_at"), number("expires_at"), number("order")};
}

void BatchRecord::Enter(BatchStatus next, int64_t now) {
  status = next;
  reached[static_cast<size_t>(next)] = now;
}

BatchView BatchRecord::ToView() const {
  BatchView view{.id = id,
                 .client = client,
                 .endpoint = endpoint,
                 .status = std::string(NameOf(status)),
                 .over = IsOver(status),
                 .created_at = created_at,
                 .expires_at = expires_at,
                 .total = total,
                 .completed = completed,
                 .failed = failed};
  if (view.over) view.ended_at = reached[static_cast<size_t>(status)];
  return view;
}

Json BatchRecord::ToPublic(size_t most_faults) const {
  Json errors;
  if (!faults.empty()) errors = {{"object", "list"}, {"data", FaultsJson(faults, most_faults)}};
  Json json = {{"id", id},
               {"object", "batch"},
               {"endpoint", endpoint},
               {"errors", std::move(errors)},
               {"input_file_id", input_file_id},
               {"completion_window", completion_window},
               {"status", NameOf(status)},
               {"output_file_id", IsOver(status) ? OrNull(output_file_id) : Json()},
               {"error_file_id", IsOver(status) ? OrNull(error_file_id) : Json()},
               {"created_at", created_at},
               {"expires_at", OrNull(expires_at)},
               {"request_counts", {{"total", total}, {"completed", completed}, {"failed", failed}}},
               {"metadata", metadata}};
  for (int i = 1; i < kBatchStatuses; ++i)
    json[std::string(kNames[static_cast<size_t>(i)]) + "_at"] = OrNull(reached[i]);
  return json;
}

Json BatchRecord::ToJson() const {
  return {{"id", id},
          {"client", client},
          {"endpoint", endpoint},
          {"input_file_id", input_file_id},
          {"completion_window", completion_window},
          {"output_file_id", output_file_id},
          {"error_file_id", error_file_id},
          {"status", NameOf(status)},
          {"ends_as", NameOf(ends_as)},
          {"metadata", metadata},
          {"faults", FaultsJson(faults)},
          {"created_at", created_at},
          {"expires_at", expires_at},
          {"output_seconds", output_seconds},
          {"total", total},
          {"completed", completed},
          {"failed", failed},
          {"order", order},
          {"reached", reached}};
}

BatchRecord BatchRecord::FromJson(const Json& json) {
  const auto text = [&](const char* name) { return json.at(name).get<std::string>(); };
  const auto number = [&](const char* name) { return json.at(name).get<int64_t>(); };
  BatchRecord batch{.id = text("id"),
                    .client = text("client"),
                    .endpoint = text("endpoint"),
                    .input_file_id = text("input_file_id"),
                    .completion_window = text("completion_window"),
                    .output_file_id = text("output_file_id"),
                    .error_file_id = text("error_file_id"),
                    .status = StatusNamed(text("status")),
                    .ends_as = StatusNamed(text("ends_as")),
                    .metadata = json.at("metadata"),
                    .faults = FaultsFrom(json.at("faults")),
                    .created_at = number("created_at"),
                    .expires_at = number("expires_at"),
                    .output_seconds = number("output_seconds"),
                    .total = number("total"),
                    .completed = number("completed"),
                    .failed = number("failed"),
                    .order = number("order")};
  for (size_t i = 0; i < kNames.size(); ++i) batch.reached[i] = json.at("reached").at(i).get<int64_t>();
  return batch;
}

}  // namespace quire
