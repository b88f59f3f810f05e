#include "coordinator/client/batch_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/regular_file.h"
#include "coordinator/batches/batch_line.h"
#include "coordinator/batches/member_text.h"

namespace quire {

namespace {

constexpr JsonLimits kLimits{.max_depth = 64, .max_nodes = 10'000'000};

BatchFile::Entry EntryOf(const std::string& line, const std::string& where) {
  BatchLine read = ReadBatchLine(line, where);
  return {std::move(read.custom_id), std::move(read.url), 0};
}

/// Opens the file; does not wait if it is a pipe that nobody writes to.
std::FILE* OpenedForReading(const std::string& path) {
  const RegularFile file = RegularFile::Open(path, RegularFile::Links::kFollowed);
  const int own = ::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0);
  std::FILE* stream = own < 0 ? nullptr : ::fdopen(own, "rb");
  if (stream == nullptr) Fail("cannot read {}: {}", path, std::strerror(errno));
  return stream;
}

}  // namespace

BatchFile::BatchFile(const std::string& path) : path_(path), file_(OpenedForReading(path)) {
  std::set<std::string> ids;
  std::string line;
  int64_t begin = 0;
  for (int64_t number = 1; ReadLine(line); ++number) {
    const int64_t next = begin + static_cast<int64_t>(line.size()) + 1;
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

bool BatchFile::ReadLine(std::string& line) {
  char* text = nullptr;
  size_t room = 0;
  const ssize_t size = ::getline(&text, &room, file_.get());
  const std::unique_ptr<char, decltype(&std::free)> freed(text, &std::free);
  if (size < 0 && std::ferror(file_.get()) != 0) Fail("cannot read {}: {}", path_, std::strerror(errno));
  if (size <= 0) return false;
  line.assign(text, static_cast<size_t>(size));
  if (line.back() == '\n') line.pop_back();
  return true;
}

std::string BatchFile::BodyOf(const Entry& entry) {
  std::string line;
  if (::fseeko(file_.get(), entry.begin, SEEK_SET) == 0) ReadLine(line);
  const Json json = ParseJson(line, path_, kLimits);
  if (!json.is_object() || json.value("custom_id", Json()) != entry.custom_id || !json.contains("body"))
    Fail("{}: the file was changed while its requests were sent", path_);
  return std::string(MemberText(line, "body"));
}

void BatchAnswers::Add(const std::string& line) { file_.Add(line + '\n'); }

}  // namespace quire
