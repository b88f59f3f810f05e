#include "coordinator/http/routes.h"

#include <string>

namespace quire {

bool MatchesPath(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return pattern == path;
  return path.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool TakesMethod(std::string_view route_method, std::string_view method) {
  return route_method == method || (route_method == "GET" && method == "HEAD");
}

HttpResponse NoRoute(const HttpRequest& request, const std::vector<std::string_view>& methods) {
  if (methods.empty())
    return ErrorResponse(404, "no such endpoint: " + request.path.substr(0, 100));
  std::string allow;
  for (const std::string_view method : methods) {
    if (!allow.empty()) allow += ", ";
    allow += method == "GET" ? "GET, HEAD" : std::string(method);
  }
  HttpResponse response = ErrorResponse(405, "this endpoint takes " + allow);
  response.headers.emplace_back("Allow", allow);
  return response;
}

}  // namespace quire
