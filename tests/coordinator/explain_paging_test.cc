#include "coordinator/cli/explain_paging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

TEST(ExplainPagingTest, Walkthrough_ShowsTheNumbersOfTheRealBlockManager) {
  const std::string text = ExplainPaging();
  EXPECT_THAT(text,
              HasSubstr(" 7 tokens: table [1 2], block 2 has 3 of 4 filled (newly opened); 2 of 12 blocks in use"));
  EXPECT_THAT(text, HasSubstr(" 8 tokens: table [1 2], block 2 has 4 of 4 filled; 2 of 12"));
  EXPECT_THAT(text, HasSubstr(" 9 tokens: table [1 2 3], block 3 has 1 of 4 filled (newly opened); 3 of 12"));
  EXPECT_THAT(text, HasSubstr("20 tokens: table [1 2 3 4 5], block 5 has 4 of 4 filled; 5 of 12"));
  EXPECT_THAT(text, HasSubstr("20 tokens took 5 blocks: 0 slots are empty"));
  EXPECT_THAT(text, HasSubstr("block 5 now has 2 owners"));
  EXPECT_THAT(text, HasSubstr("is shared, so its content is copied to block"));
  EXPECT_THAT(text, HasSubstr("12 blocks are free again, 5 of them still hold full blocks"));
  EXPECT_THAT(text, HasSubstr("16 are taken from the cache (blocks [1 2 3 4])"));
}

}  // namespace
}  // namespace quire
