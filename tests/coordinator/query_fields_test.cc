#include "coordinator/api/requests/query_fields.h"

#include <gmock/gmock.h>

#include "comm/base/json.h"
#include "coordinator/api/admin/block_ranges.h"
#include "coordinator/http/api_error.h"

namespace quire {
namespace {

std::string QueryError(std::string_view query) {
  try {
    const QueryFields fields(query, {"a", "b"});
    (void)fields.Integer("a", -5, 100);
    (void)fields.Choice("b", {"x", "y"});
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "";
}

TEST(QueryFieldsTest, Values_AreDecoded) {
  const QueryFields fields("a=1%2f2+3%25&b=", {"a", "b"});
  EXPECT_EQ(fields.Text("a"), "1/2 3%");
  EXPECT_EQ(fields.Text("b"), "");
  EXPECT_EQ(QueryFields("", {"a"}).Integer("a", 0, 9), std::nullopt);
  EXPECT_EQ(QueryFields("a=-5", {"a"}).Integer("a", -5, 100), -5);
  EXPECT_EQ(QueryFields("&&b=x&", {"a", "b"}).Choice("b", {"x", "y"}), "x");
}

TEST(QueryFieldsTest, Errors_NameTheWrongField) {
  EXPECT_EQ(QueryError("a=1&b=y"), "");
  for (const char* query : {"a=101", "a=-6", "a=", "a=1x", "a=99999999999999999999", "a"})
    EXPECT_THAT(QueryError(query), testing::HasSubstr("a must be from -5 to 100")) << query;
  EXPECT_THAT(QueryError("b=z"), testing::HasSubstr("b must be one of x, y"));
  EXPECT_THAT(QueryError("c=1"), testing::HasSubstr("the query takes a, b"));
  EXPECT_THAT(QueryError("a=1&a=1"), testing::HasSubstr("a is there twice"));
  for (const char* query : {"a=%", "a=%1", "a=%zz", "a=%+1", "%q=1"})
    EXPECT_THAT(QueryError(query), testing::HasSubstr("malformed")) << query;
}

TEST(BlockRangesTest, ConsecutiveBlocks_BecomeOneRange) {
  EXPECT_EQ(BlockRangesJson({}).dump(), "[]");
  EXPECT_EQ(BlockRangesJson({4}).dump(), "[[4,1]]");
  EXPECT_EQ(BlockRangesJson({4, 5, 6, 9, 8, 7}).dump(), "[[4,3],[9,1],[8,1],[7,1]]");
  EXPECT_EQ(BlockRangesJson({0, 0, 1, 2, 0}).dump(), "[[0,2],[1,2],[0,1]]");
}

}  // namespace
}  // namespace quire
