#pragma once

#include <memory>
#include <string>

#include "coordinator/api/openai/openai_response.h"
#include "coordinator/http/piecewise_text.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// Formats the answer to one chat call of the Messages or the Responses API: a whole answer, or a stream of events. The
/// call has one choice. A text that depends on the whole answer is returned as a PiecewiseText; other threads may make
/// its pieces.
class AnswerForm {
 public:
  virtual ~AnswerForm() = default;

  virtual std::shared_ptr<PiecewiseText> Whole(AnswerChoice choice, const Usage& usage) = 0;

  // These functions return the texts of a stream: Opening, then a Delta for each event, then Ending. After a failure
  // the stream sends Failure instead of the texts that remain.
  virtual std::shared_ptr<PiecewiseText> Opening(const Usage& usage) = 0;
  /// Returns the text for one event. `parts`: the event's parsed text. If a tool call turns out to be malformed, text
  /// that was sent for it is not taken back.
  virtual std::string Delta(const AnswerParts& parts, const CallEvent& event) = 0;
  virtual std::shared_ptr<PiecewiseText> Ending(const Usage& usage) = 0;
  virtual std::shared_ptr<PiecewiseText> Failure(const CallEvent& event) = 0;
  /// Returns the bytes of texts that a stream must store until its end.
  virtual int64_t held_bytes() const { return 0; }
  /// Returns the bytes of the parts of the request that the answer repeats.
  virtual int64_t repeated_bytes() const { return 0; }
  /// Returns the keep-alive text that a stream sends when no event has come for a while.
  virtual std::string Ping() const { return ": ping\n\n"; }
};

/// Returns a server-sent event with a name.
inline std::string NamedEvent(const std::string& name, const std::string& data) {
  return "event: " + name + "\ndata: " + data + "\n\n";
}

}  // namespace quire
