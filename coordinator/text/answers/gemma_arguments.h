#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "coordinator/text/answers/tool.h"

namespace quire {

/// Converts the arguments of Gemma 4's calls, {key:<|"|>text<|"|>,other:[1,true]}, into a JSON object, while they
/// arrive. Keys and strings may also have quotation marks, as in JSON. A word without quotation marks is a number, a
/// literal, or a value whose type the tool's schema gives.
class GemmaArguments {
 public:
  enum class Status { kMore, kDone, kError };

  /// tool: the called tool. Its schema gives the types of words without quotation marks.
  explicit GemmaArguments(const Tool* tool) : tool_(tool) {}

  /// Reads from the front of `text`, which begins where the last reading ended. Adds the number of bytes read to
  /// `taken`, and the JSON of these bytes to `out`. Returns kMore when more text is needed.
  Status Read(std::string_view text, size_t& taken, std::string& out);
  /// Returns the JSON of the waiting `text`, after which the answer was cut off: the part of the value that is certain.
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
