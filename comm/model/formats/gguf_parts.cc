#include "comm/model/formats/gguf_parts.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr int64_t kMostParts = 400;  // kMaxMappings of mapping_errors.cc has room for more than this number of files
constexpr const char *kNumber = "split.no", *kCount = "split.count", *kTensors = "split.tensors.count";

/// Removes a number of five digits from the end of `text` and returns the number; returns -1 when there is none.
int64_t TakeNumber(std::string_view& text) {
  constexpr size_t kDigits = 5;
  if (text.size() < kDigits) return -1;
  const std::string_view digits = text.substr(text.size() - kDigits);
  if (digits.find_first_not_of("0123456789") != digits.npos) return -1;
  int64_t number = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  text.remove_suffix(kDigits);
  return number;
}

bool TakeEnd(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

int64_t ValueOf(const GgufFile& gguf, const char* key, int64_t otherwise) {
  const int64_t* value = gguf.Find<int64_t>(key);
  return value != nullptr ? *value : otherwise;
}

/// Returns the naming of a split model's parts; nullopt for a whole file. Throws Error for a part that is not the
/// first.
std::optional<GgufPart> PartsOf(const GgufFile& gguf) {
  const int64_t count = ValueOf(gguf, kCount, 1), number = ValueOf(gguf, kNumber, 0);
  if (count <= 1) return std::nullopt;
  const std::optional<GgufPart> named = GgufPartNamed(gguf.path);
  if (!named || named->count != count || named->number != number + 1) {
    Fail("{}: is part {} of a model in {} files, which are found by their names: call it NAME-{:05}-of-{:05}.gguf",
         gguf.path, number + 1, count, number + 1, count);
  }
  if (count > kMostParts) Fail("{}: a model in {} files is not supported, {} at most", gguf.path, count, kMostParts);
  if (number != 0) {
    Fail("{}: is part {} of a model in {} files; give the first, {}", gguf.path, number + 1, count, named->PathOf(1));
  }
  return named;
}

void AddPart(const GgufPart& parts, int64_t number, std::vector<MappedFile>& files, GgufFile& whole) {
  const std::string path = parts.PathOf(number);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    Fail("{}: part {} of {} is missing: fetch it beside {}", path, number, parts.count, whole.path);
  files.emplace_back(path);
  GgufFile part = ReadGguf(files.back().bytes(), path);
  if (ValueOf(part, kNumber, -1) != number - 1 || ValueOf(part, kCount, -1) != parts.count)
    Fail("{}: is not part {} of {} of {}", path, number, parts.count, whole.path);
  for (auto& [name, tensor] : part.tensors) {
    if (!whole.tensors.emplace(name, std::move(tensor)).second)
      Fail("{}: tensor {} is in another part, too", path, name.substr(0, 100));
  }
}

}  // namespace

std::string GgufPart::PathOf(int64_t part) const { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part, count); }

std::optional<GgufPart> GgufPartNamed(const std::string& path) {
  std::string_view text = path;
  if (!TakeEnd(text, ".gguf")) return std::nullopt;
  const int64_t count = TakeNumber(text);
  if (count < 1 || !TakeEnd(text, "-of-")) return std::nullopt;
  const int64_t number = TakeNumber(text);
  if (number < 1 || number > count || !TakeEnd(text, "-")) return std::nullopt;
  return GgufPart{std::string(text), number, count};
}

GgufFile ReadGgufParts(const std::string& path, std::vector<MappedFile>& files) {
  files.emplace_back(path);
  GgufFile whole = ReadGguf(files.back().bytes(), path);
  const std::optional<GgufPart> parts = PartsOf(whole);
  if (!parts) return whole;
  for (int64_t number = 2; number <= parts->count; ++number) AddPart(*parts, number, files, whole);
  const int64_t tensors = std::ssize(whole.tensors), said = ValueOf(whole, kTensors, tensors);
  if (said != tensors) Fail("{}: its {} parts have {} tensors instead of {}", path, parts->count, tensors, said);
  return whole;
}

std::vector<std::string> GgufPaths(const std::string& path) {
  const MappedFile file(path);
  const std::optional<GgufPart> parts = PartsOf(ReadGguf(file.bytes(), path));
  std::vector<std::string> paths = {path};
  for (int64_t number = 2; parts && number <= parts->count; ++number) paths.push_back(parts->PathOf(number));
  return paths;
}

}  // namespace quire
