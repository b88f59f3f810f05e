#pragma once

#include <string>
#include <string_view>

#include "comm/base/error.h"

namespace quire {

/// One request of a batch, in OpenAI's batch format: a JSON object on a line,
///  {"custom_id": "...", "method": "POST", "url": "/v1/...", "body": {...}}.
struct BatchLine {
  std::string custom_id;
  std::string url;        // a path of the API
  std::string_view body;  // the request exactly as written, a part of the line's text
};

/// The error of a line that is no request of a batch.
class BatchLineError : public Error {
 public:
  BatchLineError(std::string code, std::string param, const std::string& message)
      : Error(message), code_(std::move(code)), param_(std::move(param)) {}
  const std::string& code() const { return code_; }    // the error in one word, such as "invalid_json_line"
  const std::string& param() const { return param_; }  // the member at fault; empty: the whole line

 private:
  std::string code_, param_;
};

/// Reads a line. `line` must outlive the result. Throws BatchLineError with a text that begins with `where`.
BatchLine ReadBatchLine(std::string_view line, const std::string& where);

/// Returns the output line, without its line end, for a request that the server has answered. `id`: the id that the
/// line gets. `request_id`: the request's id in the server's records. `body`: the answer as JSON without line ends.
std::string BatchAnswerLine(const std::string& id, const std::string& custom_id, int status,
                            const std::string& request_id, std::string_view body);
/// Return the parts of BatchAnswerLine's result before the answer's body and after it.
std::string BatchAnswerBegin(const std::string& id, const std::string& custom_id, int status,
                             const std::string& request_id);
inline constexpr std::string_view kBatchAnswerEnd = R"(},"error":null})";
/// Returns the line of a batch's output for a request that got no answer. `code` and `message` tell the reason.
std::string BatchErrorLine(const std::string& id, const std::string& custom_id, std::string_view code,
                           const std::string& message);

/// Removes all line ends from JSON text. This changes no value, because strings in JSON cannot contain line ends.
std::string OnOneLine(std::string json);

}  // namespace quire
