// Tests the cache salt that keeps the blocks of clients apart. The salt comes from a client's identity and the request.
#include "coordinator/api/access/client_id.h"

#include <gtest/gtest.h>

#include <set>

namespace quire {
namespace {

TEST(CacheSaltTest, CacheSalts_DifferBetweenClients_WhateverSaltTheirRequestsName) {
  const std::set<std::string> salts = {CacheSalt("", ""),   CacheSalt("ab", ""),  CacheSalt("", "ab"),
                                       CacheSalt("a", "b"), CacheSalt("ab", "c"), CacheSalt("a", "bc"),
                                       CacheSalt("", "abc")};
  EXPECT_EQ(salts.size(), 7u);
  EXPECT_EQ(CacheSalt("ab", "c"), CacheSalt("ab", "c"));
}

}  // namespace
}  // namespace quire
