#include "coordinator/cli/model_source.h"

#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/plain_word.h"
#include "comm/model/formats/gguf_parts.h"
#include "comm/model/formats/mapped_file.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxReferenceBytes = 200;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns the user's home: $HOME, otherwise the entry of the system's user database, as Python's tools do. Throws
/// Error when neither is an absolute path: another user may have created a folder in the working directory.
fs::path Home() {
  if (const fs::path home = Environment("HOME"); home.is_absolute()) return home;
  std::vector<char> text(64 << 10);
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr &&
      fs::path(entry.pw_dir).is_absolute())
    return entry.pw_dir;
  Fail("HOME is not set, and the system knows no home of user {}: set HF_HOME to the folder of the Hugging Face tools",
       ::getuid());
}

/// Returns a folder from an environment variable; a leading ~ becomes the user's home.
fs::path Expanded(const std::string& folder) {
  const bool is_home = folder == "~" || folder.starts_with("~/");
  return is_home ? Home() / folder.substr(std::min<size_t>(2, folder.size())) : fs::path(folder);
}

/// Returns the GGUF models in a folder and its direct subfolders (with `deepest` 0 in the folder only). Returns only
/// the first part of a split model. Skips mmproj files, which contain the vision parts of models.
std::vector<std::string> GgufModelsIn(const fs::path& folder, int deepest = 1) {
  std::vector<std::string> files;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto entry = fs::recursive_directory_iterator(folder, options); entry != fs::recursive_directory_iterator();
       ++entry) {
    if (entry.depth() >= deepest) entry.disable_recursion_pending();
    const fs::path& path = entry->path();
    if (path.extension() != ".gguf" || path.filename().string().find("mmproj") != std::string::npos) continue;
    const std::optional<GgufPart> part = GgufPartNamed(path);
    if (!part || part->number == 1) files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// True for a GGUF file with the kind of quantisation as a word in its name: "q4_k_m" in "Llama-3-Q4_K_M.gguf", but not
/// in "Llama-3-Q4_K_M_L.gguf".
bool IsOfKind(const std::string& path, const std::string& kind) {
  std::string name = fs::path(path).stem(), wanted = kind;
  std::ranges::transform(name, name.begin(), Lower);
  std::ranges::transform(wanted, wanted.begin(), Lower);
  const auto ends_word = [](char c) { return c == '-' || c == '.'; };
  for (size_t at = name.find(wanted); at != std::string::npos; at = name.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    if ((at == 0 || ends_word(name[at - 1])) && (end == name.size() || ends_word(name[end]))) return true;
  }
  return false;
}

/// Splits ORG/NAME:KIND into its two parts. For other text KIND is empty.
std::pair<std::string, std::string> SplitKind(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || !IsModelName(text.substr(0, colon))) return {text, ""};
  const std::string kind = text.substr(colon + 1);
  if (kind.empty() || !IsMadeOf(kind, "-_.")) return {text, ""};
  return {text.substr(0, colon), kind};
}

bool HasWeights(const fs::path& folder) {
  const auto is_there = [&](const char* name) { return fs::exists(fs::symlink_status(folder / name)); };
  return is_there("model.safetensors") || is_there("model.safetensors.index.json");
}

/// Returns the model in a folder: the folder itself if it has weights and config.json, or config.json and no GGUF file;
/// otherwise its only GGUF model. Throws Error for other folders. `name` appears in error messages.
std::string InFolder(const fs::path& folder, const std::string& name) {
  const bool has_config = fs::exists(folder / "config.json");
  if (has_config && HasWeights(folder)) return folder;
  const std::vector<std::string> files = GgufModelsIn(folder);
  if (files.size() == 1) return files.front();
  if (has_config && files.empty()) return folder;
  if (files.empty()) Fail("{}: neither config.json nor a GGUF file in {}", name, folder.string());
  Fail("{}: several GGUF files; give one of them: {}", name, fmt::join(files, " "));
}

/// Returns the path of the only GGUF model in `folder` whose file name has the word `kind`, such as Q4_K_M (IsOfKind).
/// Fails if there is none, or more than one. `name` appears in error messages.
std::string OfKindIn(const fs::path& folder, const std::string& kind, const std::string& name) {
  const std::vector<std::string> files = GgufModelsIn(folder);
  std::vector<std::string> fitting;
  std::ranges::copy_if(files, std::back_inserter(fitting), [&](const std::string& f) { return IsOfKind(f, kind); });
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty()) Fail("{}: no GGUF file of {} is in {}; add --fetch to fetch it", name, kind, folder.string());
  Fail("{}: several GGUF files are of {}; give one of them: {}", name, kind, fmt::join(fitting, " "));
}

/// True for a name in the form of Ollama's names, such as llama3:8b.
bool IsOllamaName(const std::string& text) {
  const size_t colon = text.find(':');
  return colon != 0 && colon != std::string::npos && colon + 1 < text.size() && text.find('/') == std::string::npos &&
         IsMadeOf(text.substr(0, colon), "-_.") && IsMadeOf(text.substr(colon + 1), "-_.");
}

/// Returns the folder of a model's main branch in the Hugging Face cache; nothing if the cache lacks the model.
std::optional<fs::path> CachedSnapshot(const std::string& name) {
  std::error_code ignored;
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path repository = HuggingFaceCache() / folder, main = repository / "refs" / "main";
  if (!fs::is_regular_file(main, ignored)) return std::nullopt;
  std::string commit = ReadTextFile(main, kMaxReferenceBytes);
  commit.erase(commit.find_last_not_of(" \r\n") + 1);
  const fs::path snapshot = repository / "snapshots" / commit;
  if (commit.empty() || !IsMadeOf(commit, "") || !fs::is_directory(snapshot, ignored)) return std::nullopt;
  return snapshot;
}

/// Returns the names of the weight files that an index lists; nothing if the file is no valid index.
std::optional<std::vector<std::string>> IndexedFiles(const fs::path& index) try {
  constexpr size_t kMaxIndexBytes = 64 << 20;
  const Json read = ParseJson(ReadTextFile(index, kMaxIndexBytes), index.string(), {.max_nodes = 2'000'000});
  std::vector<std::string> names;
  for (const Json& name : read.at("weight_map")) names.push_back(name.get<std::string>());
  return names;
} catch (const std::exception&) {  // the file is truncated, or of another kind
  return std::nullopt;
}

bool IsWhole(const fs::path& snapshot) {
  std::error_code ignored;
  const auto is_there = [&](const std::string& name) { return fs::exists(snapshot / name, ignored); };
  if (is_there("model.safetensors") || !is_there("model.safetensors.index.json"))
    return is_there("model.safetensors") || !GgufModelsIn(snapshot).empty();
  const auto names = IndexedFiles(snapshot / "model.safetensors.index.json");
  return names && std::ranges::all_of(*names, is_there);
}

}  // namespace

fs::path HuggingFaceCache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = Environment(name); !cache.empty()) return Expanded(cache);
  }
  if (const std::string home = Environment("HF_HOME"); !home.empty()) return Expanded(home) / "hub";
  const std::string xdg = Environment("XDG_CACHE_HOME");
  const fs::path cache = !xdg.empty() ? Expanded(xdg) : Home() / ".cache";
  return cache / "huggingface" / "hub";
}

bool IsModelName(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() || text[0] == '.') return false;
  return IsMadeOf(text.substr(0, slash), "-_.") && IsMadeOf(text.substr(slash + 1), "-_.") && text[slash + 1] != '.';
}

bool IsCached(const std::string& name) { return CachedSnapshot(SplitKind(name).first).has_value(); }

bool IsModelHere(const std::string& text) {
  std::error_code ignored;
  const auto [name, kind] = SplitKind(text);
  if (fs::exists(text, ignored) || !IsModelName(name)) return true;
  const std::optional<fs::path> snapshot = CachedSnapshot(name);
  if (!snapshot || kind.empty()) return snapshot && IsWhole(*snapshot);
  return std::ranges::any_of(GgufModelsIn(*snapshot), [&](const std::string& file) { return IsOfKind(file, kind); });
}

std::string FindModel(const std::string& text) {
  std::error_code ignored;
  if (fs::is_directory(text, ignored))
    return HasWeights(text) || GgufModelsIn(text).empty() ? text : InFolder(text, text);
  const auto [name, kind] = SplitKind(text);
  if (IsOllamaName(text) && !fs::exists(text, ignored))
    Fail(
        "{}: no such path, and names of Ollama are not known here; give ORG/NAME of Hugging Face, or ORG/NAME:KIND for "
        "a GGUF file, as in ORG/NAME:Q4_K_M",
        text);
  if (fs::exists(text, ignored) || !IsModelName(name)) return text;
  if (const std::optional<fs::path> snapshot = CachedSnapshot(name))
    return kind.empty() ? InFolder(*snapshot, text) : OfKindIn(*snapshot, kind, text);
  Fail("{}: no such path, and no model of this name in {}", text, HuggingFaceCache().string());
}

std::vector<std::pair<std::string, std::string>> ModelsIn(const std::string& directory) {
  std::error_code problem;
  const fs::directory_iterator entries(directory, problem);
  if (problem) Fail("--model-dir {}: {}", directory, problem.message());
  std::vector<std::pair<std::string, std::string>> models;
  for (const std::string& file : GgufModelsIn(directory, 0)) {
    const std::optional<GgufPart> part = GgufPartNamed(file);
    models.emplace_back(fs::path(part ? part->prefix : file.substr(0, file.rfind('.'))).filename(), file);
  }
  for (const fs::directory_entry& entry : entries) {
    if (!entry.is_directory(problem)) continue;
    if (fs::exists(entry.path() / "config.json", problem) || !GgufModelsIn(entry.path()).empty())
      models.emplace_back(entry.path().filename(), entry.path());
  }
  if (models.empty()) Fail("--model-dir {}: neither a folder with a model nor a GGUF file", directory);
  std::ranges::sort(models);
  return models;
}

}  // namespace quire
