#include "coordinator/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include "comm/base/error.h"
#include "coordinator/cli/manual_sections.h"

namespace quire {

namespace {

using Words = std::vector<std::string>;

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Visits the command and all its subcommands, each with its full name, such as "quire bench latency".
void Walk(const CLI::App& app, const std::string& name,
          const std::function<void(const CLI::App&, const std::string&)>& visit) {
  visit(app, name);
  for (const CLI::App* command : CommandsOf(app)) Walk(*command, name + " " + command->get_name(), visit);
}

void WalkFlags(const CLI::App& app, const std::function<void(const CLI::Option&, const std::string&)>& visit) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) visit(*option, "--" + name);
  }
}

/// Returns the values that an option allows; empty if they are not listed. The parser has them in the option's type
/// name: TEXT:{cpu,cuda}.
Words ValuesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  Words values = {""};
  for (const char c : type.substr(begin + 1, end - begin - 1)) {
    if (c == ',')
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

std::string ForBash(const CLI::App& app) {
  std::string steps, values, words;
  Walk(app, app.get_name(), [&](const CLI::App& command, const std::string& name) {
    Words next, flags;
    for (const CLI::App* inside : CommandsOf(command)) {
      next.push_back(inside->get_name());
      steps += fmt::format("      \"{0} {1}\") command=\"{0} {1}\" ;;\n", name, inside->get_name());
    }
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_positional()) std::ranges::copy(ValuesOf(*option), std::back_inserter(next));
    }
    WalkFlags(command, [&](const CLI::Option& option, const std::string& flag) {
      flags.push_back(flag);
      const Words known = ValuesOf(option);
      if (!known.empty())
        values += fmt::format("    \"{} {}\") COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", name, flag,
                              fmt::join(known, " "));
    });
    words +=
        fmt::format("    \"{}\") commands=\"{}\" flags=\"{}\" ;;\n", name, fmt::join(next, " "), fmt::join(flags, " "));
  });
  return fmt::format(R"(_quire() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command={0} commands= flags= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${{COMP_WORDS[i]}}" in
{1}    esac
  done
  case "$command $before" in
{2}  esac
  case "$command" in
{3}  esac
  if [[ $word == -* ]]; then commands=$flags; fi
  COMPREPLY=($(compgen -W "$commands" -- "$word"))
}}
complete -o default -F _quire {0}
)",
                     app.get_name(), steps, values, words);
}

std::string QuotedForFish(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string ForFish(const CLI::App& app) {
  std::string script;
  Walk(app, "", [&](const CLI::App& command, const std::string& name) {
    std::string here;  // a shell condition: this command was typed last
    for (size_t begin = 1; begin < name.size();) {
      const size_t end = std::min(name.find(' ', begin), name.size());
      here += fmt::format("{}__fish_seen_subcommand_from {}", here.empty() ? "" : "; and ",
                          name.substr(begin, end - begin));
      begin = end + 1;
    }
    Words inside;
    for (const CLI::App* next : CommandsOf(command)) inside.push_back(next->get_name());
    const std::string none_inside =
        inside.empty() ? "" : fmt::format("not __fish_seen_subcommand_from {}", fmt::join(inside, " "));
    const std::string when = here.empty() || none_inside.empty() ? here + none_inside : here + "; and " + none_inside;
    const std::string prefix = fmt::format("complete -c {} -n {}", app.get_name(), QuotedForFish(when));
    for (const CLI::App* next : CommandsOf(command))
      script += fmt::format("{} -f -a {} -d {}\n", prefix, next->get_name(), QuotedForFish(next->get_description()));
    WalkFlags(command, [&](const CLI::Option& option, const std::string& flag) {
      const Words known = ValuesOf(option);
      script += fmt::format("{} -l {}{} -d {}\n", prefix, flag.substr(2),
                            known.empty() ? "" : fmt::format(" -x -a '{}'", fmt::join(known, " ")),
                            QuotedForFish(option.get_description()));
    });
  });
  return script;
}

/// Escapes text for a manual page, so that groff takes no part of the text as a request and may break a line after each
/// comma.
std::string Escaped(const std::string& text) {
  std::string escaped = !text.empty() && (text[0] == '.' || text[0] == '\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else if (c == ',')
      escaped += ",\\:";
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

std::string CompletionFor(const std::string& shell, const CLI::App& app) {
  if (shell == "bash") return ForBash(app);
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + ForBash(app);
  if (shell == "fish") return ForFish(app);
  Fail("completion: there is none for {}; bash, zsh or fish", shell);
}

std::string ManualPage(const CLI::App& app, const std::string& version) {
  std::string page = fmt::format(
      ".TH {} 1 \"\" {} \"User Commands\"\n.ad l\n.nh\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\nCOMMAND "
      "[ARGUMENT...]\n.SH "
      "COMMANDS\n",
      "QUIRE", Escaped("Quire " + version).insert(0, "\"") + "\"", app.get_name(), Escaped(app.get_description()),
      app.get_name());
  Walk(app, app.get_name(), [&](const CLI::App& command, const std::string& name) {
    if (command.get_parent() != nullptr)
      page += fmt::format(".SS {}\n{}.\n", Escaped(name), Escaped(command.get_description()));
    for (const CLI::Option* option : command.get_options()) {
      const std::string type =
          option->get_items_expected_max() > 0 ? " \\fI" + Escaped(option->get_type_name()) + "\\fR" : "";
      page += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", Escaped(option->get_name(option->get_positional())), type,
                          Escaped(option->get_description()));
    }
  });
  return page + ManualSections();
}

}  // namespace quire
