#include "coordinator/http/routes.h"

#include <gtest/gtest.h>

#include <functional>

namespace quire {
namespace {

class RoutesTest : public ::testing::Test {
 protected:
  static HttpRequest Ask(const std::string& method, const std::string& path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    return request;
  }
  /// Returns the number of the matching route, or 0 when no route matches.
  int Taken(const std::string& method, const std::string& path) const {
    const auto* handler = routes_.Find(Ask(method, path));
    return handler == nullptr ? 0 : (*handler)();
  }
  std::string Allowed(const std::string& method, const std::string& path) const {
    const auto refusal = routes_.Refusal(Ask(method, path));
    if (!refusal) return "taken";
    if (refusal->status == 404) return "no such path";
    EXPECT_EQ(refusal->status, 405);
    EXPECT_EQ(refusal->headers.at(0).first, "Allow");
    return refusal->headers.at(0).second;
  }

  const Routes<std::function<int()>> routes_{{{"GET", "/models", [] { return 1; }},
                                              {"GET", "/models/*", [] { return 2; }},
                                              {"POST", "/ask", [] { return 3; }},
                                              {"GET", "/both", [] { return 4; }},
                                              {"POST", "/both", [] { return 5; }}}};
};

TEST_F(RoutesTest, Find_MatchesPathAndMethod) {
  EXPECT_EQ(Taken("GET", "/models"), 1);
  EXPECT_EQ(Taken("HEAD", "/models"), 1);
  EXPECT_EQ(Taken("GET", "/models/"), 2);
  EXPECT_EQ(Taken("GET", "/models/a/b"), 2);
  EXPECT_EQ(Taken("POST", "/both"), 5);
  EXPECT_EQ(Taken("GET", "/both"), 4);
  EXPECT_EQ(Taken("HEAD", "/ask"), 0);
  EXPECT_EQ(Taken("GET", "/model"), 0);
  EXPECT_EQ(Taken("GET", "/ask/"), 0);
}

TEST_F(RoutesTest, Refusal_ListsAllowedMethods_WhenTheMethodIsWrong) {
  EXPECT_EQ(Allowed("GET", "/models"), "taken");
  EXPECT_EQ(Allowed("DELETE", "/models"), "GET, HEAD");
  EXPECT_EQ(Allowed("OPTIONS", "/models/x"), "GET, HEAD");
  EXPECT_EQ(Allowed("GET", "/ask"), "POST");
  EXPECT_EQ(Allowed("PUT", "/both"), "GET, HEAD, POST");
  EXPECT_EQ(Allowed("GET", "/nope"), "no such path");
  EXPECT_EQ(Allowed("POST", "/"), "no such path");
}

}  // namespace
}  // namespace quire
