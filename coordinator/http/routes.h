#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/http/http_types.h"

namespace quire {

/// True when `pattern` equals `path`, or ends in "*" and is otherwise a prefix of `path`.
bool MatchesPath(std::string_view pattern, std::string_view path);
/// True when the methods are equal; a route of GET takes HEAD, too.
bool TakesMethod(std::string_view route_method, std::string_view method);
/// Returns the answer to a request without a route: 405 with the header Allow when the path has `methods`, else 404.
HttpResponse NoRoute(const HttpRequest& request, const std::vector<std::string_view>& methods);

/// The endpoints of one port: paths, their methods and their handlers. The first route that fits is taken.
template <class Handler>
class Routes {
 public:
  struct Route {
    std::string_view method;  // GET, POST, PATCH or DELETE
    std::string_view path;    // the exact path, or a prefix and "*"
    Handler handler;
    std::string_view help = {};  // one line for the list of endpoints of the control port
  };
  explicit Routes(std::vector<Route> routes) : routes_(std::move(routes)) {}

  /// Returns the handler of the request; null when there is no route (then see Refusal).
  const Handler* Find(const HttpRequest& request) const {
    for (const Route& route : routes_) {
      if (MatchesPath(route.path, request.path) && TakesMethod(route.method, request.method)) return &route.handler;
    }
    return nullptr;
  }

  /// Returns the refusal of a request without a route, made from its head alone; nothing when there is a route.
  std::optional<HttpResponse> Refusal(const HttpRequest& request) const {
    if (Find(request) != nullptr) return std::nullopt;
    std::vector<std::string_view> methods;
    for (const Route& route : routes_) {
      if (MatchesPath(route.path, request.path)) methods.push_back(route.method);
    }
    return NoRoute(request, methods);
  }

  /// Returns the pattern of the first route of this path, for any method; "none" when there is none.
  std::string_view PatternOf(std::string_view path) const {
    for (const Route& route : routes_) {
      if (MatchesPath(route.path, path)) return route.path;
    }
    return "none";
  }

  const std::vector<Route>& all() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace quire
