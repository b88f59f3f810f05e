#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/api/http/http_types.h"

namespace quire {

/// True when the pattern is the path, or ends in "*" and begins the path.
bool MatchesPath(std::string_view pattern, std::string_view path);
/// GET is there for HEAD, too.
bool TakesMethod(std::string_view route_method, std::string_view method);
/// 404; or, when the path takes other methods, 405 that names them.
HttpResponse NoRoute(const HttpRequest& request, const std::vector<std::string_view>& methods);

/// The endpoints of one port: which methods a path takes, and who answers. The first route that fits is taken.
template <class Handler>
class Routes {
 public:
  struct Route {
    std::string_view method;  // GET, POST, PATCH or DELETE
    std::string_view path;    // exact, or with "*" at its end for whatever follows
    Handler handler;
    std::string_view help = {};  // one line for people
  };
  explicit Routes(std::vector<Route> routes) : routes_(std::move(routes)) {}

  /// Null: there is none, and Refusal says what to answer.
  const Handler* Find(const HttpRequest& request) const {
    for (const Route& route : routes_) {
      if (MatchesPath(route.path, request.path) && TakesMethod(route.method, request.method)) return &route.handler;
    }
    return nullptr;
  }

  /// With the head alone; nothing when there is a route.
  std::optional<HttpResponse> Refusal(const HttpRequest& request) const {
    if (Find(request) != nullptr) return std::nullopt;
    std::vector<std::string_view> methods;
    for (const Route& route : routes_) {
      if (MatchesPath(route.path, request.path)) methods.push_back(route.method);
    }
    return NoRoute(request, methods);
  }

  /// The path of the route that takes this one, whatever the method; "none" where there is none.
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
