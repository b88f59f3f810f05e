#pragma once

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/client/answers_file.h"

namespace quire {

/// The requests of a batch in OpenAI's batch format: a JSON object on each line,
///  {"custom_id": "...", "method": "POST", "url": "/v1/...", "body": {...}}.
/// Bodies stay in the file until they are needed.
class BatchFile {
 public:
  /// Reads and checks every line. Throws Error with the line number for a bad line. Throws Error for anything but a
  /// regular file, because requests are read more than once.
  explicit BatchFile(const std::string& path);

  struct Entry {
    std::string custom_id;  // unique in the file
    std::string url;        // a path of the API
    int64_t begin;          // offset of the entry's line in the file
  };
  const std::vector<Entry>& entries() const { return entries_; }

  /// Returns the body of an entry's request exactly as written: without changes to the order of members or the digits
  /// of numbers.
  std::string BodyOf(const Entry& entry);

 private:
  /// Reads the next line, without its end. Returns false at the end of the file.
  bool ReadLine(std::string& line);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<Entry> entries_;
};

/// The file of a batch's answers, a JSON object on each line: {"id": ..., "custom_id": ..., "response": {"status_code",
/// "request_id", "body"}, "error": null}. If the request ended with a network error, `response` is null and `error` is
/// set. Answers come in any order. No other process may write to the file meanwhile.
class BatchAnswers {
 public:
  /// Opens the file as AnswersFile does.
  BatchAnswers(const std::string& path, const std::string& requests) : file_(path, requests) {}

  /// Returns the custom_ids of the requests that an earlier run has answered.
  const std::set<std::string>& answered() const { return file_.answered(); }
  /// Appends a line, given without its newline. Throws Error when the disk refuses the line.
  void Add(const std::string& line);

 private:
  AnswersFile file_;
};

}  // namespace quire
