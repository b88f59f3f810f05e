// What a call becomes on its way to the engine.
#include "coordinator/api/openai/generation.h"

#include <gtest/gtest.h>

#include <set>

namespace quire {
namespace {

TEST(CacheSaltTest, NoClientReachesAnothersBlocksByASalt) {
  const std::set<std::string> salts = {CacheSalt("", ""),   CacheSalt("ab", ""),  CacheSalt("", "ab"),
                                       CacheSalt("a", "b"), CacheSalt("ab", "c"), CacheSalt("a", "bc"),
                                       CacheSalt("", "abc")};
  EXPECT_EQ(salts.size(), 7u);
  EXPECT_EQ(CacheSalt("ab", "c"), CacheSalt("ab", "c"));
}

}  // namespace
}  // namespace quire
