#include "coordinator/client/batch_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/batches/batch_line.h"
#include "coordinator/batches/member_text.h"

namespace quire {

namespace {

constexpr JsonLimits kLimits{.max_depth = 64, .max_nodes = 10'000'000};

BatchFile::Entry EntryOf(const std::string& line, const std::string& where) {
  BatchLine read = ReadBatchLine(line, where);
  return {std::move(read.custom_id), std::move(read.url), 0};
}

/// Refuses what cannot be read twice, such as a pipe, before opening it would wait for a writer.
const std::string& CheckedRegular(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) Fail("{}: {}", path, error ? error.message() : std::strerror(ENOENT));
  if (!std::filesystem::is_regular_file(status))
    Fail("{}: is no regular file; save the requests in one, because they are read more than once", path);
  return path;
}

}  // namespace

BatchFile::BatchFile(const std::string& path) : path_(path), file_(CheckedRegular(path), std::ios::binary) {
  if (!file_) Fail("{}: {}", path, std::strerror(errno));
  std::set<std::string> ids;
  std::string line;
  std::streamoff begin = 0;
  for (int64_t number = 1; std::getline(file_, line); ++number) {
    const std::streamoff next = begin + static_cast<std::streamoff>(line.size()) + 1;
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      const std::string where = fmt::format("{}: line {}", path, number);
      Entry entry = EntryOf(line, where);
      if (!ids.insert(entry.custom_id).second) Fail("{}: custom_id \"{}\" comes twice", where, entry.custom_id);
      entry.begin = begin;
      entries_.push_back(std::move(entry));
    }
    begin = next;
  }
  if (entries_.empty()) Fail("{}: no requests", path);
}

std::string BatchFile::BodyOf(const Entry& entry) {
  file_.clear();
  file_.seekg(entry.begin);
  std::string line;
  std::getline(file_, line);
  const Json json = ParseJson(line, path_, kLimits);
  if (!json.is_object() || json.value("custom_id", Json()) != entry.custom_id || !json.contains("body"))
    Fail("{}: the file was changed while its requests were sent", path_);
  return std::string(MemberText(line, "body"));
}

void BatchAnswers::Add(const std::string& line) { file_.Add(line + '\n'); }

}  // namespace quire
