#include "coordinator/cli/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quire {
namespace {

std::vector<std::string> InOrder(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "quire");
  std::vector<std::string> arguments = Arguments(static_cast<int>(argv.size()), argv.data());
  std::ranges::reverse(arguments);
  return arguments;
}

using Words = std::vector<std::string>;

TEST(ArgumentsTest, Arguments_ExpandAbbreviatedFlagsAndTheHelpCommand) {
  const Words want = {"serve", "--tensor-parallel-size", "2", "--port", "1"};
  EXPECT_EQ(InOrder({"serve", "-tp", "2", "--port", "1"}), want);
  EXPECT_EQ(InOrder({"serve", "-tp=2", "--port", "1"}), want);
  EXPECT_EQ(InOrder({"serve", "-tp2", "--port", "1"}), want);
  const Words staged = {"serve", "--pipeline-parallel-size", "3", "--tensor-parallel-size", "2"};
  EXPECT_EQ(InOrder({"serve", "-pp", "3", "-tp", "2"}), staged);
  EXPECT_EQ(InOrder({"serve", "-pp=3", "-tp2"}), staged);
  EXPECT_EQ(InOrder({"help"}), Words{"--help"});
  EXPECT_EQ(InOrder({"help", "serve"}), (Words{"serve", "--help"}));
  EXPECT_EQ(InOrder({"serve", "help"}), (Words{"serve", "help"})) << "a model may have that name";
}

TEST(NearestWordTest, NearestWord_AllowsAThirdOfTheLettersToDiffer) {
  const Words words = {"serve", "check", "bench"};
  EXPECT_EQ(NearestWord("srve", words), "serve");
  EXPECT_EQ(NearestWord("sevre", words), "serve") << "a swap is one mistake";
  EXPECT_EQ(NearestWord("bensh", words), "bench");
  EXPECT_EQ(NearestWord("plan", words), "");
  EXPECT_EQ(NearestWord("serve", {}), "");
}

struct Program {
  Program() {
    app.require_subcommand(1);
    CLI::App* serve = app.add_subcommand("serve");
    serve->add_option("--model", text);
    serve->add_option("--tensor-parallel-size", text);
    app.add_subcommand("bench")->add_subcommand("latency")->add_option("--rounds", text);
  }
  std::string Says(const std::vector<const char*>& argv) {
    Words arguments = InOrder(argv);
    std::ranges::reverse(arguments);
    return Suggestion(app, arguments);
  }
  CLI::App app{"", "quire"};
  std::string text;
};

TEST(SuggestionTest, Suggestion_NamesTheNearestCommandOrFlag_WhenOneIsMisspelt) {
  Program program;
  EXPECT_EQ(program.Says({"srve", "--model", "m"}),
            "quire has no command \"srve\"; did you mean \"serve\"? (quire --help lists the commands)");
  EXPECT_EQ(program.Says({"serve", "--modle", "m"}),
            "quire serve has no flag --modle; did you mean --model? (quire serve --help lists the flags)");
  EXPECT_EQ(program.Says({"serve", "--tensor-paralel-size=2"}),
            "quire serve has no flag --tensor-paralel-size; did you mean --tensor-parallel-size? (quire serve --help "
            "lists the flags)");
  EXPECT_EQ(program.Says({"bench", "latncy"}),
            "quire bench has no command \"latncy\"; did you mean \"latency\"? (quire bench --help lists the commands)");
  EXPECT_EQ(program.Says({"serve", "--quantum"}),
            "quire serve has no flag --quantum (quire serve --help lists the flags)");
  EXPECT_EQ(program.Says({"serve", "--model", "m"}), "") << "nothing is misspelt";
}

}  // namespace
}  // namespace quire
