#include "coordinator/api/openai/continued_message.h"

#include <gtest/gtest.h>

#include "coordinator/http/api_error.h"

namespace quire {
namespace {

OrderedJson Conversation(const std::string& last) {
  return {{{"role", "user"}, {"content", "THE_ANSWER_GOES_ON_0_ THE_ANSWER_GOES_ON_2_ THE_ANSWER_GOES_ON_x"}},
          {{"role", "assistant"}, {"content", last}}};
}

TEST(ContinuedMessageTest, Mark_OccursInNoMessage) {
  OrderedJson messages = Conversation("so THE_ANSWER_GOES_ON_1_ THE_ANSWER_GOES_ON_18446744073709551615_");
  EXPECT_EQ(MarkEndOfLastMessage(messages), "THE_ANSWER_GOES_ON_3_");
  EXPECT_EQ(messages[1]["content"],
            "so THE_ANSWER_GOES_ON_1_ THE_ANSWER_GOES_ON_18446744073709551615_THE_ANSWER_GOES_ON_3_ ");
}

TEST(ContinuedMessageTest, CutAtMark_EndsTheTextAfterTheMessage_WithTheSpacesThatTheTemplateShows) {
  OrderedJson messages = Conversation("well, ");
  const std::string mark = MarkEndOfLastMessage(messages);
  EXPECT_EQ(CutAtMark({"<a> well, " + mark + " <end>", MarkedText::kTrusted}, mark).text, "<a> well, ");
  EXPECT_EQ(CutAtMark({"<a> well, " + mark + "<end>", MarkedText::kTrusted}, mark).text, "<a> well,");
}

TEST(ContinuedMessageTest, Requests_AreRefused_WhenThereIsNothingToContinueOrTheTemplateChangesTheMark) {
  OrderedJson messages = Conversation(" \n");
  EXPECT_THROW(MarkEndOfLastMessage(messages), ApiError);
  EXPECT_THROW(CutAtMark({"the answer goes on", MarkedText::kTrusted}, "THE_ANSWER_GOES_ON_0_"), ApiError);
}

}  // namespace
}  // namespace quire
