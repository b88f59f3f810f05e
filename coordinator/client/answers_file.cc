#include "coordinator/client/answers_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

// The JSON of a line has the body two levels deep, and few other values.
constexpr JsonLimits kLineLimits{.max_depth = kBodyLimits.max_depth + 2, .max_nodes = kBodyLimits.max_nodes + 100};
constexpr const char* kRemedy = "give another file to --output";

enum class LineKind { kAnswer, kRefusal, kCut, kForeign };
struct Line {
  LineKind kind;
  std::string custom_id;  // for kAnswer
};

/// True for the beginning of an answer without a newline, as a killed run may leave at the end of the file. Any other
/// line that cannot be read was not written by a run, and must not be lost.
bool IsCut(std::string_view text) {
  const size_t size = std::min(text.size(), kAnswerBegin.size());
  return !text.ends_with('\n') && text.substr(0, size) == kAnswerBegin.substr(0, size);
}

/// Classifies a line, given with its newline if it has one.
Line LineOf(std::string_view text) {
  Json line;
  try {
    line = ParseJson(std::string(text), "a line", kLineLimits);
  } catch (const Error&) {
    return {IsCut(text) ? LineKind::kCut : LineKind::kForeign, ""};
  }
  for (const char* member : {"custom_id", "response", "error"}) {
    if (!line.is_object() || !line.contains(member)) return {LineKind::kForeign, ""};
  }
  const Json &id = line["custom_id"], &response = line["response"];
  if (!id.is_string() || !(response.is_object() || response.is_null())) return {LineKind::kForeign, ""};
  const bool answered =
      response.is_object() && response.contains("status_code") && response["status_code"] == Json(200);
  return {answered ? LineKind::kAnswer : LineKind::kRefusal, id.get<std::string>()};
}

/// Reads the lines of an open file from its beginning.
class LineReader {
 public:
  LineReader(const std::string& path, int descriptor) : path_(path) {
    const int own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (own >= 0) file_ = ::fdopen(own, "r");
    if (file_ == nullptr) Fail("{}: {}", path, std::strerror(errno));
  }
  ~LineReader() {
    ::fclose(file_);
    std::free(line_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Reads the next line. Returns false at the end of the file. Throws Error when reading fails.
  bool Next() {
    begin_ += static_cast<off_t>(size_);
    const ssize_t read = ::getline(&line_, &room_, file_);
    if (read < 0 && std::ferror(file_) != 0) Fail("{}: {}", path_, std::strerror(errno));
    size_ = read < 0 ? 0 : static_cast<size_t>(read);
    return read >= 0;
  }
  /// Returns the current line, with its newline if it has one.
  std::string_view line() const { return {line_, size_}; }
  off_t begin() const { return begin_; }

 private:
  const std::string& path_;
  FILE* file_ = nullptr;
  char* line_ = nullptr;
  size_t room_ = 0, size_ = 0;
  off_t begin_ = 0;
};

bool WriteAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

/// A new file beside another file, under an unpredictable name. The destructor deletes it unless MoveTo was called.
class NewFile {
 public:
  explicit NewFile(const std::string& beside) : name_(beside + ".XXXXXX") {
    descriptor_ = ::mkostemp(name_.data(), O_APPEND | O_CLOEXEC);
    if (descriptor_ < 0) Fail("{}: {}", name_, std::strerror(errno));
  }
  ~NewFile() {
    if (descriptor_ < 0) return;
    ::unlink(name_.c_str());
    ::close(descriptor_);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// Throws Error with errno's text unless `is_well`.
  void Require(bool is_well) const {
    if (!is_well) Fail("{}: {}", name_, std::strerror(errno));
  }
  /// Renames the file to `path`. Returns its descriptor, which the caller must close.
  int MoveTo(const std::string& path) {
    Require(::rename(name_.c_str(), path.c_str()) == 0);
    return std::exchange(descriptor_, -1);
  }

 private:
  std::string name_;
  int descriptor_;
};

/// Makes a new name in a folder durable by syncing the folder. Ignores folders that cannot be synced.
void SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

}  // namespace

AnswersFile::AnswersFile(const std::string& path, const std::string& requests) : path_(path) {
  // Another run may replace the file after it was opened and before it is locked; then the new file is opened.
  constexpr int kMostTries = 100;
  for (int tries = 1; !Open(); ++tries) {
    if (tries == kMostTries) Fail("{}: it is exchanged again and again; {}", path, kRemedy);
  }
  try {
    Check(requests);
    const std::vector<Range> kept = Sift();
    const bool stays = kept.size() == 1 && kept[0].begin == 0 && kept[0].end == info_.st_size && ends_line_;
    if (!stays && info_.st_size > 0) Replace(kept);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AnswersFile::~AnswersFile() { ::close(descriptor_); }

/// Opens and locks the file, or creates it. Returns false when the path leads to another file by now; the caller then
/// tries again. Never follows links.
bool AnswersFile::Open() {
  constexpr int kFlags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  descriptor_ = ::open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
  if (descriptor_ < 0 && errno == EEXIST) {
    descriptor_ = ::open(path_.c_str(), kFlags);
    if (descriptor_ < 0 && errno == ENOENT) return false;
    if (descriptor_ < 0 && errno == ELOOP)
      FailSettings("{}: that is a link, which is not followed; {}", path_, kRemedy);
  }
  if (descriptor_ < 0) FailSettings("{}: {}", path_, std::strerror(errno));
  const bool is_locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  // Another run may have written before the lock was taken.
  if (::fstat(descriptor_, &info_) != 0) Fail("{}: {}", path_, std::strerror(errno));
  if (is_locked && IsInPlace()) return true;
  const bool is_in_place = IsInPlace();
  ::close(descriptor_);
  if (is_in_place) Fail("{}: another run writes to it", path_);
  return false;
}

bool AnswersFile::IsInPlace() const {
  struct stat there;
  return ::lstat(path_.c_str(), &there) == 0 && there.st_dev == info_.st_dev && there.st_ino == info_.st_ino;
}

void AnswersFile::Check(const std::string& requests) const {
  struct stat other;
  if (::stat(requests.c_str(), &other) == 0 && other.st_dev == info_.st_dev && other.st_ino == info_.st_ino)
    FailSettings("--output {}: that is the file of the requests", path_);
  if (!S_ISREG(info_.st_mode)) FailSettings("{}: no ordinary file; {}", path_, kRemedy);
  if (info_.st_uid != ::geteuid()) FailSettings("{}: it belongs to another user; {}", path_, kRemedy);
  if (info_.st_nlink != 1) FailSettings("{}: the file has other names, too (hard links); {}", path_, kRemedy);
}

/// Checks all lines, and adds their custom_ids to answered_. Returns the ranges of the lines that stay in the file:
/// answers with status 200. Throws Error for a line that is no answer.
std::vector<AnswersFile::Range> AnswersFile::Sift() {
  std::vector<Range> kept;
  LineReader reader(path_, descriptor_);
  for (int64_t number = 1; reader.Next(); ++number) {
    const std::string_view text = reader.line();
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
    const Line line = LineOf(text);
    if (line.kind == LineKind::kForeign)
      FailSettings("{}: line {} is no answer of a batch, and would be lost; {}", path_, number, kRemedy);
    if (line.kind != LineKind::kAnswer) continue;
    answered_.insert(line.custom_id);
    if (kept.empty() || kept.back().end != reader.begin()) kept.push_back({reader.begin(), reader.begin()});
    kept.back().end += static_cast<off_t>(text.size());
    ends_line_ = text.ends_with('\n');
  }
  return kept;
}

/// Replaces the file by one with these lines. The new file is locked before it gets the name, because the lock that is
/// held is on the old file.
void AnswersFile::Replace(const std::vector<Range>& kept) {
  NewFile fresh(path_);
  fresh.Require(::flock(fresh.descriptor(), LOCK_EX | LOCK_NB) == 0);
  const bool has_group = ::fchown(fresh.descriptor(), info_.st_uid, info_.st_gid) == 0;
  fresh.Require(has_group || errno == EPERM);
  // If the new file has another group than the old one, that group must get no rights.
  fresh.Require(::fchmod(fresh.descriptor(), info_.st_mode & (has_group ? 0777 : 0707)) == 0);
  std::vector<char> part(1 << 20);
  for (auto [begin, end] : kept) {
    while (begin < end) {
      const ssize_t count =
          ::pread(descriptor_, part.data(), std::min(part.size(), static_cast<size_t>(end - begin)), begin);
      if (count <= 0) Fail("{}: {}", path_, count == 0 ? "it was cut meanwhile" : std::strerror(errno));
      fresh.Require(WriteAll(fresh.descriptor(), {part.data(), static_cast<size_t>(count)}));
      begin += count;
    }
  }
  if (!ends_line_) fresh.Require(WriteAll(fresh.descriptor(), "\n"));
  fresh.Require(::fsync(fresh.descriptor()) == 0);
  if (!IsInPlace()) Fail("{}: somebody has put another file there", path_);
  const int descriptor = fresh.MoveTo(path_);
  SyncFolderOf(path_);
  ::close(descriptor_);
  descriptor_ = descriptor;
}

void AnswersFile::Add(std::string_view bytes) {
  if (!WriteAll(descriptor_, bytes)) Fail("{}: {}", path_, std::strerror(errno));
}

}  // namespace quire
