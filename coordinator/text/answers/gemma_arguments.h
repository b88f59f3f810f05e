#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "coordinator/text/answers/tool.h"

namespace quire {

/// Converts the arguments of a call as Gemma 4 writes them, {key:<|"|>text<|"|>,other:[1,true]}, into a JSON object, as
/// they arrive. Keys and strings may stand in quotation marks as in JSON, too. A bare word is a number or a literal, or
/// gets its type from the tool's schema.
class GemmaArguments {
 public:
  enum class Status { kMore, kDone, kError };

  /// tool: the called tool, whose schema gives the types of bare words.
  explicit GemmaArguments(const Tool* tool) : tool_(tool) {}

  /// Reads from the front of `text`, which begins where the last reading ended. Adds the bytes that were read to
  /// `taken`, and their JSON to `out`. kMore: more text is needed.
  Status Read(std::string_view text, size_t& taken, std::string& out);
  /// Returns the JSON of the waiting `text`, after which the answer was cut: the certain part of a value.
  std::string Cut(std::string_view text) const;

 private:
  enum class Expects { kObject, kKeyOrEnd, kKey, kValue, kValueOrEnd, kCommaOrEnd, kString, kQuoted };
  Status Step(std::string_view text, size_t& taken, std::string& out);
  Status Key(std::string_view text, size_t& taken, std::string& out);
  Status Value(std::string_view text, size_t& taken, std::string& out);
  Status Word(std::string_view text, size_t& taken, std::string& out);
  Status InString(std::string_view text, size_t& taken, std::string& out);
  Status InQuotes(std::string_view text, size_t& taken, std::string& out);
  Status Open(char c, std::string& out);
  Status Close(char c, std::string& out);
  bool is_argument() const { return open_.size() == 1; }

  const Tool* tool_;
  Expects expects_ = Expects::kObject;
  std::string open_;  // '{' and '[', outermost first
  std::string key_;   // name of the argument that is being read
};

}  // namespace quire
