#include "coordinator/cli/foreign_flags.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "comm/model/formats/mapped_file.h"
#include "coordinator/cli/flag_values.h"
#include "coordinator/cli/foreign_words.h"
#include "coordinator/cli/options.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using Words = std::vector<std::string>;

Words SplitWords(std::string_view text) { return CLI::detail::split(std::string(text), ' '); }

/// The Quire commands. Flags of other programs are translated to flags of these commands.
struct Commands {
  Commands() {
    AddServeFlags(*app.add_subcommand("serve"), flags);
    CLI::App* chat = app.add_subcommand("chat");
    for (const char* name : {"--system", "--key-file", "--output,-o"}) chat->add_option(name, text);
    chat->add_option("url", text);
  }
  OwnWords Translate(const Words& typed) { return InOwnWords(app, typed); }
  std::string ErrorOf(const Words& typed) {
    return ErrorThrownBy([&] { Translate(typed); });
  }
  CLI::App app{"", "quire"};
  ServeFlags flags;
  std::string text;
};

/// Expects that flags of another program are translated as the row says.
void ExpectFate(Words typed, const std::string& shown, FlagFate fate, Words ours, std::string_view to) {
  static Commands commands;  // declaring all flags again for each row would take most of the test's time
  const Words before = {typed[0]};
  if (fate == FlagFate::kRefused) {
    const std::string error = commands.ErrorOf(typed);
    EXPECT_NE(error.find(shown + " is refused: " + std::string(to)), std::string::npos) << shown << ": " << error;
    return;
  }
  const OwnWords own = commands.Translate(typed);
  Words want = before;
  if (fate == FlagFate::kOurs) std::ranges::copy(ours, std::back_inserter(want));
  EXPECT_EQ(own.words, want) << shown;
  const Words notes = {shown + " is not needed: " + std::string(to)};
  EXPECT_EQ(own.notes, fate == FlagFate::kNotNeeded ? notes : Words()) << shown;
  Words reversed = own.words;
  std::ranges::reverse(reversed);
  EXPECT_NO_THROW(commands.app.parse(reversed)) << shown;
}

TEST(ForeignFlagsTest, EveryFlag_IsTranslatedIgnoredOrRefused) {
  for (const ForeignFlag& flag : ForeignFlags()) {
    for (const std::string& name : SplitWords(flag.names)) {
      const bool takes_value = flag.takes != FlagTakes::kNothing;
      Words typed = {flag.place == FlagPlace::kServers ? "serve" : "chat", name};
      Words ours = SplitWords(flag.to);
      if (takes_value) typed.push_back("7"), ours.push_back("7");
      ExpectFate(typed, name, flag.fate, ours, flag.to);
      if (!takes_value || !name.starts_with("--")) continue;
      ExpectFate({typed[0], name + "=7"}, name, flag.fate, ours, flag.to);
    }
  }
}

TEST(ForeignFlagsTest, EveryListedValue_IsTranslatedIgnoredOrRefused) {
  for (const ForeignValue& row : ForeignValues()) {
    for (const std::string& flag : SplitWords(row.flags)) {
      for (const std::string& value : SplitWords(row.values))
        ExpectFate({"serve", flag, value}, flag + " " + value, row.fate, SplitWords(row.to), row.to);
    }
  }
}

TEST(ForeignFlagsTest, EachForeignFlag_HasOneRow_AndIsNoFlagOfTheServer) {
  Commands commands;
  std::set<std::pair<FlagPlace, std::string>> seen;
  for (const ForeignFlag& flag : ForeignFlags()) {
    for (const std::string& name : SplitWords(flag.names)) {
      EXPECT_TRUE(seen.insert({flag.place, name}).second) << name;
      if (flag.place == FlagPlace::kServers) {
        EXPECT_EQ(commands.app.get_subcommand("serve")->get_option_no_throw(name), nullptr) << name;
      }
    }
  }
  std::set<std::pair<std::string, std::string>> values;
  for (const ForeignValue& row : ForeignValues()) {
    for (const std::string& flag : SplitWords(row.flags)) {
      for (const std::string& value : SplitWords(row.values))
        EXPECT_TRUE(values.insert({flag, value}).second) << flag << " " << value;
    }
  }
}

TEST(ForeignFlagsTest, Remedies_NameFlagsThatExist) {
  Commands commands;
  const std::set<std::string> of_other_commands = {"--api", "--file", "--system", "--key-file", "--output"};
  std::vector<std::string> texts;
  for (const ForeignFlag& flag : ForeignFlags()) texts.emplace_back(flag.to);
  for (const ForeignValue& row : ForeignValues()) texts.emplace_back(row.to);
  const std::regex flags("--[a-z][a-z-]+");
  for (const std::string& text : texts) {
    for (std::sregex_iterator at(text.begin(), text.end(), flags), end; at != end; ++at) {
      const std::string name = at->str();
      const bool known = commands.app.get_subcommand("serve")->get_option_no_throw(name) != nullptr;
      EXPECT_TRUE(known || of_other_commands.contains(name)) << name << " in: " << text;
    }
  }
}

TEST(ForeignFlagsTest, CommandsOfOtherPrograms_NameTheirRemedy) {
  for (const ForeignCommand& row : ForeignCommands()) {
    for (const std::string& name : SplitWords(row.names)) {
      Commands commands;
      EXPECT_EQ(commands.ErrorOf({name, "x"}), "quire has no command \"" + name + "\": " + std::string(row.remedy));
    }
  }
}

std::string InCode(std::string_view words) {
  std::string text;
  for (const std::string& word : SplitWords(words)) text += (text.empty() ? "`" : " `") + word + "`";
  return text;
}

std::string FateInWords(FlagFate fate, std::string_view to) {
  const std::string text(to);
  return fate == FlagFate::kOurs ? "`" + text + "`"
                                 : (fate == FlagFate::kRefused ? "refused: " : "not needed: ") + text;
}

TEST(ForeignFlagsTest, DocsPage_HasTheRowsOfTheTables) {
  std::vector<std::string> want;
  for (const FlagPlace place : {FlagPlace::kServers, FlagPlace::kClients}) {
    for (const ForeignFlag& flag : ForeignFlags()) {
      if (flag.place == place)
        want.push_back("| " + InCode(flag.names) + " | " + FateInWords(flag.fate, flag.to) + " |");
    }
  }
  for (const ForeignValue& row : ForeignValues())
    want.push_back("| " + InCode(row.flags) + " | " + InCode(row.values) + " | " + FateInWords(row.fate, row.to) +
                   " |");
  for (const ForeignCommand& row : ForeignCommands())
    want.push_back("| " + InCode(row.names) + " | " + std::string(row.remedy) + " |");
  std::vector<std::string> written;
  const auto page = std::filesystem::path(QUIRE_TEST_DATA).parent_path().parent_path() / "docs" / "flags.md";
  for (const std::string& line : CLI::detail::split(ReadTextFile(page, 1 << 20), '\n')) {
    if (line.starts_with("| `")) written.push_back(line);
  }
  EXPECT_EQ(written, want);
}

TEST(ForeignWordsTest, ServedNames_BecomeOneList_AndTheLastWordIsTheModelUnlessAnotherIsNamed) {
  const auto translate = [](const Words& typed) { return Commands().Translate(typed).words; };
  EXPECT_EQ(translate({"serve", "/m", "--served-model-name", "a", "b", "--port", "1"}),
            (Words{"serve", "/m", "--port", "1", "--served-model-name", "[\"a\",\"b\"]"}));
  EXPECT_EQ(translate({"serve", "--served-model-name", "a", "b", "/m"}),
            (Words{"serve", "--served-model-name", "[\"a\",\"b\"]", "/m"}));
  EXPECT_EQ(translate({"serve", "--served-model-name", "a", "/m"}), (Words{"serve", "--served-model-name", "a", "/m"}));
  EXPECT_EQ(translate({"serve", "--served-model-name", "a", "b", "-m", "/m"}),
            (Words{"serve", "--model", "/m", "--served-model-name", "[\"a\",\"b\"]"}));
  EXPECT_EQ(translate({"serve", "/m", "--served-model-name=a"}), (Words{"serve", "/m", "--served-model-name", "a"}));
}

TEST(ForeignWordsTest, Adapters_BecomeOneList_FromOneFlagOrSeveral) {
  const auto translate = [](const Words& typed) { return Commands().Translate(typed).words; };
  EXPECT_EQ(translate({"serve", "/m", "--lora-modules", "a=/x", "b=/y", "--port", "1"}),
            (Words{"serve", "/m", "--port", "1", "--lora-modules", R"(["a=/x","b=/y"])"}));
  EXPECT_EQ(translate({"serve", "--lora-modules", "a=/x", "/m", "--lora-modules=b=/y"}),
            (Words{"serve", "/m", "--lora-modules", R"(["a=/x","b=/y"])"}));
  EXPECT_EQ(translate({"serve", "/m", "--enable-lora", "--max-loras", "64", "--lora-modules", R"({"name": "a"})"}),
            (Words{"serve", "/m", "--lora-modules", R"(["{\"name\": \"a\"}"])"}));
}

TEST(ForeignWordsTest, ShortFlags_TakeValues_AttachedOrAfterAnEqualsSign) {
  const auto translate = [](const Words& typed) { return Commands().Translate(typed).words; };
  EXPECT_EQ(translate({"serve", "-c4096"}), (Words{"serve", "--max-model-len", "4096"}));
  EXPECT_EQ(translate({"serve", "-c=4096"}), (Words{"serve", "--max-model-len", "4096"}));
  EXPECT_EQ(translate({"serve", "--max_model_len", "9"}), (Words{"serve", "--max-model-len", "9"}));
  EXPECT_EQ(translate({"serve", "--seed", "-5"}), (Words{"serve", "--seed=-5"}));
  EXPECT_EQ(translate({"serve", "-fa", "/m"}), (Words{"serve", "/m"})) << "a switch takes no path";
  EXPECT_EQ(translate({"serve", "-fa", "on", "/m"}), (Words{"serve", "/m"}));
  EXPECT_EQ(translate({"chat", "-oF"}), (Words{"chat", "-oF"})) << "its own short flag";
  EXPECT_EQ(translate({"serve", "--set", "seed=-5", "--", "--trust-remote-code"}),
            (Words{"serve", "--set", "seed=-5", "--", "--trust-remote-code"}));
}

TEST(ForeignWordsTest, Errors_NameTheCommandAndTheFlag_WhenAShortFlagIsUnknownOrAValueIsMissing) {
  Commands commands;
  EXPECT_EQ(commands.ErrorOf({"serve", "-xyz", "/m"}),
            "quire serve has no flag -xyz (quire serve --help lists the flags)");
  EXPECT_EQ(commands.ErrorOf({"serve", "-model", "/m"}),
            "quire serve has no flag -model; did you mean --model? (quire serve --help lists the flags)");
  EXPECT_EQ(commands.ErrorOf({"chat", "-hf", "a/b"}), "quire chat has no flag -hf (quire chat --help lists the flags)");
  for (const char* flag : {"-hf", "-m", "--model", "--ctx-size"}) {
    const std::string named = fmt::format("quire has no flag {0}; quire serve has: quire serve {0} ... ", flag);
    EXPECT_EQ(commands.ErrorOf({flag, "a/b"}), named + "(quire serve --help lists the flags)");
  }
  EXPECT_EQ(commands.ErrorOf({"serve", "--ctx-size"}), "quire serve: --ctx-size needs a value");
  EXPECT_EQ(commands.ErrorOf({"serve", "--api-key", "secret"}).find("secret"), std::string::npos)
      << "no key stands in a log";
}

TEST(FlagValuesTest, NumbersOfTokens_MayHaveAUnitSuffix_InFlags) {
  const std::pair<const char*, const char*> cases[] = {
      {"4096", "4096"},   {"32k", "32000"}, {"32K", "32768"}, {"1M", "1048576"}, {"2m", "2000000"},
      {"25.6k", "25600"}, {"auto", "auto"}, {"k", "k"},       {"1kk", "1kk"},    {"1.5.2k", "1.5.2k"}};
  for (const auto& [text, tokens] : cases) EXPECT_EQ(ValueOfTokens(text, "--max-model-len").scalar, tokens);
}

TEST(FlagValuesTest, ValuesOfFlag_ListsTheAcceptedWords) {
  Commands commands;
  for (const CLI::Option* option : commands.app.get_subcommand("serve")->get_options()) {
    if (option->get_items_expected_max() == 0 || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    ServeFlags flags;
    flags.given = {{name, "no-such-word"}};
    if (name == "--set" || name == "--host" || name == "--port" || name == "--admin-port" || name == "--model-dir")
      continue;
    const std::string error = ErrorThrownBy([&] { SettingsFromFlags(flags); });
    const bool is_choice = error.find("must be one of") != std::string::npos || name.ends_with("-parser");
    EXPECT_EQ(is_choice, option->get_type_name().find('{') != std::string::npos) << name << ": " << error;
  }
}

}  // namespace
}  // namespace quire
