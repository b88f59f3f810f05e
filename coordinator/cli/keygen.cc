#include "coordinator/cli/keygen.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "comm/base/error.h"
#include "comm/base/process_hardening.h"
#include "comm/base/secret_file.h"
#include "comm/wire/curve/curve_keys.h"
#include "coordinator/api/access/api_keys.h"

namespace quire {

namespace {

/// Appends a line to a key file, and creates a missing file. An existing file must meet the requirements that the
/// server makes of key files.
void AppendLine(const std::string& file, const std::string& line) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(file))) return CreateFile(file, line, 0600);
  const Secret before = ReadAsSettings([&] { return ReadGuardedFile(file, FileAccess::kOwnerOnly, 1 << 20); });
  const std::string addition = before.size() > 0 && before.view().back() != '\n' ? "\n" + line : line;
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) FailSettings("cannot write {}: {}", file, std::strerror(errno));
  const bool written = ::write(fd, addition.data(), addition.size()) == static_cast<ssize_t>(addition.size());
  const int error = errno;
  ::close(fd);
  if (!written) Fail("cannot write {}: {}", file, std::strerror(error));
}

}  // namespace

void CheckKeygen(const KeygenCommand& command) {
  const bool transport = !command.transport_directory.empty(), api = !command.api_name.empty();
  if (transport + api + command.admin != 1) Fail("quire keygen makes one of --transport DIR, --api NAME, --admin");
  if (transport && !command.ranks) Fail("--transport needs --ranks N: how many workers are there?");
  if (!transport && command.file.empty()) Fail("--api and --admin need --file F");
  if (transport ? !command.file.empty() : command.ranks.has_value())
    Fail("--file goes with --api and --admin, --ranks with --transport");
  const std::string& name = api ? command.api_name : command.admin_name;
  if (!name.empty() && !IsKeyName(name))
    Fail("{}: a name has 1 to 64 letters, digits or -_.@", api ? "--api" : "--admin");
  if (command.scopes.empty()) return;
  const KeyKind kind = api ? KeyKind::kApi : KeyKind::kAdmin;
  if (transport || !AreScopes(command.scopes, kind))
    Fail("--scopes \"{}\": read, {}, or both with a comma", command.scopes, PostScope(kind));
}

int RunKeygen(const KeygenCommand& command) {
  HardenProcess();
  if (!command.transport_directory.empty()) {
    const auto written = WriteTransportKeys(command.transport_directory, *command.ranks);
    for (const std::string& path : written) fmt::print("{}\n", path);
    if (written.empty()) fmt::print(stderr, "nothing to do: {} has all keys already\n", command.transport_directory);
    return 0;
  }
  ForbidCoreDumps();
  const std::string token_name = command.admin_name.empty() ? "admin" : command.admin_name;
  const NewApiKey made = command.admin ? MakeApiKey(token_name, "qa-", command.scopes)
                                       : MakeApiKey(command.api_name, "qk-", command.scopes);
  if (command.admin && command.admin_name.empty())
    CreateFile(command.file, made.line, 0600);
  else
    AppendLine(command.file, made.line);
  fmt::print("{}\n", made.key);
  return 0;
}

}  // namespace quire
