#include "coordinator/cli/model_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/plain_word.h"
#include "comm/model/formats/mapped_file.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxReferenceBytes = 200;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The model inside a snapshot: the folder, or the only GGUF file of a repository that has nothing else.
std::string InSnapshot(const fs::path& snapshot, const std::string& name) {
  if (fs::exists(snapshot / "config.json")) return snapshot;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(snapshot)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  if (files.size() == 1) return files.front();
  std::ranges::sort(files);
  if (files.empty()) Fail("{}: neither config.json nor a GGUF file in {}", name, snapshot.string());
  Fail("{}: several GGUF files; give one of them: {}", name, fmt::join(files, " "));
}

}  // namespace

fs::path HuggingFaceCache() {
  if (const std::string cache = Environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = Environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string xdg = Environment("XDG_CACHE_HOME");
  const fs::path cache = !xdg.empty() ? fs::path(xdg) : fs::path(Environment("HOME")) / ".cache";
  return cache / "huggingface" / "hub";
}

bool IsModelName(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() || text[0] == '.') return false;
  return IsMadeOf(text.substr(0, slash), "-_.") && IsMadeOf(text.substr(slash + 1), "-_.") && text[slash + 1] != '.';
}

std::string FindModel(const std::string& text) {
  std::error_code ignored;
  if (fs::exists(text, ignored) || !IsModelName(text)) return text;
  std::string folder = "models--" + text;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path repository = HuggingFaceCache() / folder, main = repository / "refs" / "main";
  if (fs::is_regular_file(main, ignored)) {
    std::string commit = ReadTextFile(main, kMaxReferenceBytes);
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    const fs::path snapshot = repository / "snapshots" / commit;
    if (!commit.empty() && IsMadeOf(commit, "") && fs::is_directory(snapshot, ignored))
      return InSnapshot(snapshot, text);
  }
  Fail("{}: no such path, and no model of this name in {}; deploy/fetch-model {} fetches it", text,
       HuggingFaceCache().string(), text);
}

}  // namespace quire
