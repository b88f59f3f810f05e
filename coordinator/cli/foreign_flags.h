#pragma once

#include <span>
#include <string>
#include <string_view>

// Flags and commands of vLLM, SGLang, llama.cpp, Ollama and TGI, and how this program treats each.
namespace quire {

/// The treatment of a foreign flag. kOurs: the flag is another spelling of flags of Quire. kNotNeeded: the flag changes
/// nothing in Quire, and a line in the log says why. kRefused: the command ends with an error that names the remedy.
enum class FlagFate { kOurs, kNotNeeded, kRefused };

/// The words that a flag takes. kSwitch: at most one of on, off, auto, true, false, or a number.
enum class FlagTakes { kNothing, kWord, kSwitch, kWords };

/// The commands that know a foreign flag: commands that start servers, or commands that send requests to servers.
enum class FlagPlace { kServers, kClients };

struct ForeignFlag {
  std::string_view names;  // all spellings, with blanks between them
  FlagTakes takes;
  FlagFate fate;
  std::string_view to;  // kOurs: Quire's words, before the flag's value; otherwise the reason or the remedy
  FlagPlace place = FlagPlace::kServers;
};

/// Values of a flag, of Quire or of another program, that are treated differently from the flag's other values
/// (FlagFate).
struct ForeignValue {
  std::string_view flags, values;  // spellings of the flag and its values, with blanks between them
  FlagFate fate;
  std::string_view to;  // kOurs: the words that replace flag and value
};

/// A command of another program.
struct ForeignCommand {
  std::string_view names;
  std::string_view remedy;
};

/// Returns all flags: first those that many people type, then ForeignTuningFlags().
std::span<const ForeignFlag> ForeignFlags();
/// Returns the flags that tune the internals of other engines, and flags for functions that Quire provides in another
/// way.
std::span<const ForeignFlag> ForeignTuningFlags();
std::span<const ForeignValue> ForeignValues();
std::span<const ForeignCommand> ForeignCommands();

/// True when the word is in the list. Blanks separate the list's words.
bool IsAmong(std::string_view list, std::string_view word);

}  // namespace quire
