// Tests how grammars in lark's notation become patterns. The tests match texts with the code that also constrains
// answers.
#include "coordinator/api/requests/responses/lark_pattern.h"

#include <gtest/gtest.h>

#include "comm/base/error.h"
#include "comm/schema/text_automaton.h"
#include "comm/schema/text_pattern.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

bool Takes(const std::string& grammar, const std::string& text) {
  return TextsWith("^(?:" + PatternOfLark(grammar) + ")$").Accepts(text);
}

std::string LarkFault(const std::string& grammar) {
  return ErrorThrownBy([&] { (void)PatternOfLark(grammar); });
}

TEST(LarkPattern, PatternOfLark_ReplacesRuleNamesByTheirRules) {
  const std::string patch = R"(
// A patch.
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?

hunk: add | "*** Delete File: " filename LF -> gone
    | "*** Move: " filename LF
add: "*** Add File: " filename LF add_line+
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

%import common.LF
)";
  EXPECT_TRUE(Takes(patch, "*** Begin Patch\n*** Add File: a/b.txt\n+x\n+\n*** End Patch"));
  EXPECT_TRUE(Takes(patch, "*** Begin Patch\n*** Delete File: a\n*** Move: b\n*** End Patch\n"));
  EXPECT_FALSE(Takes(patch, "*** Begin Patch\n*** End Patch\n")) << "a patch has a hunk";
  EXPECT_FALSE(Takes(patch, "*** Begin Patch\n*** Add File: a\nx\n*** End Patch\n")) << "lines begin with +";
  EXPECT_FALSE(Takes(patch, "*** Begin Patch\n*** Delete File: \n*** End Patch\n")) << "a file has a name";
}

TEST(LarkPattern, PatternOfLark_TranslatesEveryOperator) {
  EXPECT_TRUE(Takes("start: \"a\"~2 [\"b\"] (\"c\" | \"d\")*", "aacdc"));
  EXPECT_FALSE(Takes("start: \"a\"~2 [\"b\"]", "aaa"));
  EXPECT_TRUE(Takes("start: X~1..3\nX: \"0\"..\"9\"", "123"));
  EXPECT_FALSE(Takes("start: X~1..3\nX: \"0\"..\"9\"", "1234"));
  EXPECT_TRUE(Takes("?start.2: \"se\\x6cect\"i \"\\n\" // end", "SeLect\n"));
  EXPECT_FALSE(Takes("start: \"a.b\"", "axb")) << "a text is no pattern";
  EXPECT_TRUE(Takes("start: /a\\/[.\\/]/", "a/."));
  EXPECT_FALSE(Takes("start: /a./", "a\n"));
  EXPECT_TRUE(Takes("start: /a./s", "a\n"));
  EXPECT_TRUE(Takes("start: INT WS A\n%import common (INT, WS)\n%import common.LETTER -> A", "12 \tx"));
}

TEST(LarkPattern, Errors_NameTheUnsupportedPart) {
  EXPECT_EQ(LarkFault("start: a\na: \"(\" a \")\" | \"x\""),
            "has the rule a, which refers to itself: only grammars without that can be kept to here");
  EXPECT_EQ(LarkFault("start: b"), "is no lark grammar that is known here: line 1 names b, which is no rule");
  EXPECT_EQ(LarkFault("a: \"x\""), "is no lark grammar: it has no rule called start");
  EXPECT_EQ(LarkFault("start: \"x\"\n%ignore \" \""),
            "is no lark grammar that is known here: line 2 has %ignore; of directives %import is known");
  EXPECT_EQ(LarkFault("start: \"x"), "is no lark grammar: line 1 has a text without its end");
  EXPECT_EQ(LarkFault("start: /x"), "is no lark grammar: line 1 has a pattern without its end");
  EXPECT_EQ(LarkFault("start: (\"x\""), "is no lark grammar that is known here: line 1 lacks a closing bracket");
  EXPECT_EQ(LarkFault("start: \"x\" ; "), "is no lark grammar: line 1 has the sign \";\", which is not known here");
  EXPECT_EQ(LarkFault("start \"x\""), "is no lark grammar that is known here: line 1 lacks the colon of a rule");
  EXPECT_EQ(LarkFault(""), "is no lark grammar: it has no rule called start");
}

TEST(LarkPattern, PatternOfLark_RefusesGrammars_WithTooLongPatternsOrTooDeepBrackets) {
  std::string grammar = "start: r0\n";
  for (int i = 0; i < 40; ++i) grammar += fmt::format("r{}: r{} r{}\n", i, i + 1, i + 1);
  EXPECT_NE(LarkFault(grammar + "r40: \"x\"").find("comes to a pattern of more than 65536 bytes"), std::string::npos);
  EXPECT_NE(LarkFault("start: " + std::string(100, '(') + "\"x\"" + std::string(100, ')')).find("64 brackets"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
