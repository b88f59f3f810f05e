#include "coordinator/cli/model_fetch.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "coordinator/cli/model_source.h"
#include "coordinator/cluster/launch/child_process.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

/// Returns the path of the script fetch-model: in the installation, or beside the build folder of a checkout. Returns
/// nothing if there is no such script.
std::optional<fs::path> FetchScript() {
  for (const char* place : {"../share/quire/fetch-model", "../deploy/fetch-model"}) {
    const fs::path script = (OwnFolder() / place).lexically_normal();
    if (::access(script.c_str(), X_OK) == 0) return script;
  }
  return std::nullopt;
}

std::string HubName() {
  const char* endpoint = std::getenv("HF_ENDPOINT");
  return endpoint == nullptr || *endpoint == '\0' ? "https://huggingface.co" : endpoint;
}

/// Asks a user at a terminal whether to fetch the model. Returns true when the user agrees, and false without a
/// terminal.
bool AskWhetherToFetch(const std::string& name) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) return false;
  fmt::print(stderr, "{} is not here. Fetch it from {} into {}? [y/N] ", name, HubName(), HuggingFaceCache().string());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

/// Returns this process's environment, with this program's folder first in PATH. The python3 of an environment that was
/// not activated may be there, and can fetch models.
std::vector<std::string> EnvironmentOfScript() {
  std::vector<std::string> variables;
  std::string path = OwnFolder();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (text.starts_with("PATH=")) {
      path += ":" + text.substr(5);
    } else {
      variables.push_back(text);
    }
  }
  variables.push_back("PATH=" + path);
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Runs the script and waits for its end. The script's progress goes to standard error; the path that it prints is
/// already known.
void RunScript(const fs::path& script, const std::string& name) {
  std::vector<std::string> words = {script, name}, variables = EnvironmentOfScript();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, script.c_str(), &actions, nullptr, Pointers(words).data(), Pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw FetchError(fmt::format("{}: {}", script.string(), std::strerror(error)));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw FetchError(
      fmt::format("{}: could not be fetched from {}; another start goes on where this one ended", name, HubName()));
}

}  // namespace

std::string FindOrFetchModel(const std::string& text, bool fetch) {
  if (IsModelHere(text)) return FindModel(text);
  const std::optional<fs::path> script = FetchScript();
  if (fetch && !script)
    Fail("--fetch: beside the folder of this program, fetch-model is neither in share/quire nor in deploy");
  if (!fetch && !IsCached(text)) {
    if (!script || !AskWhetherToFetch(text))
      Fail("{}: no such path, and no model of this name in {}; add --fetch to fetch it from {}{}", text,
           HuggingFaceCache().string(), HubName(), script ? fmt::format(", or run {} {}", script->string(), text) : "");
    fetch = true;
  }
  if (fetch) RunScript(*script, text);
  return FindModel(text);
}

}  // namespace quire
