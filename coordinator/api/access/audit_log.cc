#include "coordinator/api/access/audit_log.h"

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/log_line.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kLongestBody = 4096;  // a longer body is not parsed
constexpr size_t kLongestValue = 256;

/// True for fields whose values hold neither users' text nor keys.
bool IsShown(const std::string& name) {
  constexpr const char* kShown[] = {"all",     "level",  "pin",    "pipeline",   "replica",
                                    "request", "shares", "tensor", "ttl_seconds"};
  const bool is_setting = name.find('.') != std::string::npos;  // a setting in PATCH /admin/config
  return is_setting || std::ranges::find(kShown, name) != std::end(kShown);
}

Json Parameters(const std::string& body) {
  Json shown = Json::object();
  if (body.empty()) return shown;
  if (body.size() > kLongestBody) return fmt::format("({} bytes)", body.size());
  try {
    const Json fields = ParseJson(body, "body");
    if (!fields.is_object()) return "(no object)";
    for (const auto& [name, value] : fields.items()) {
      const bool brief = IsShown(name) && DumpJson(value).size() <= kLongestValue;
      shown[name.substr(0, kLongestValue)] = brief ? value : Json("(not shown)");
    }
  } catch (const Error&) {
    return "(no JSON)";
  }
  return shown;
}

const char* OutcomeOf(int status) {
  if (status == 0) return "the operator left";
  return status < 400 ? "done" : status < 500 ? "refused" : "failed";
}

std::string Line(const RequestRecord& record) {
  const nlohmann::ordered_json line = {
      {"time", Timestamp(std::chrono::system_clock::now())},
      {"audit", record.path.substr(0, kLongestValue)},
      {"token", record.client.empty() ? Json() : Json(record.client)},
      {"peer", record.peer},
      {"request_id", record.id},
      {"parameters", record.parameters.empty() ? Json::object() : Json::parse(record.parameters)},
      {"outcome", OutcomeOf(record.status)},
      {"status", record.status},
      {"seconds", record.seconds}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

bool IsVerb(const std::string& method) { return method == "POST" || method == "PATCH"; }

std::string AuditedParameters(const std::string& body) { return DumpJson(Parameters(body)); }

HttpService Audited(HttpService service, std::function<void(const std::string& line)> write) {
  HttpService audited;
  audited.admit = std::move(service.admit);
  audited.handle = [handle = std::move(service.handle)](HttpRequest& request, HttpResponder& responder) {
    if (IsVerb(request.method)) responder.record.parameters = AuditedParameters(request.body);
    return handle(request, responder);
  };
  audited.answered = [next = std::move(service.answered), write = std::move(write)](const RequestRecord& record) {
    const bool stranger = record.status == 401 || record.status == 429;
    if (IsVerb(record.method) && !stranger) write(Line(record));
    if (next) next(record);
  };
  return audited;
}

}  // namespace quire
