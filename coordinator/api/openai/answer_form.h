#pragma once

#include <memory>
#include <string>

#include "coordinator/api/http/piecewise_text.h"
#include "coordinator/api/openai/openai_response.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// How the answer to one call of chat looks in a dialect that is not OpenAI's chat: whole, or as events. Such calls
/// have one choice. What is made of an answer's whole text is a PiecewiseText, which other threads may make.
class AnswerForm {
 public:
  virtual ~AnswerForm() = default;

  virtual std::shared_ptr<PiecewiseText> Whole(AnswerChoice choice, const Usage& usage) = 0;

  // A stream: Opening, Delta for every event, and Ending, or Failure in its place.
  virtual std::shared_ptr<PiecewiseText> Opening(const Usage& usage) = 0;
  /// parts: what the event's text brings. What was sent of a call that turns out to be none stays as it is.
  virtual std::string Delta(const AnswerParts& parts, const CallEvent& event) = 0;
  virtual std::shared_ptr<PiecewiseText> Ending(const Usage& usage) = 0;
  virtual std::shared_ptr<PiecewiseText> Failure(const CallEvent& event) = 0;
  /// Bytes of the texts that a stream keeps until its ending.
  virtual int64_t held_bytes() const { return 0; }
  /// Bytes of what its texts repeat of the request.
  virtual int64_t repeated_bytes() const { return 0; }
  /// What a quiet stream says to show that it lives.
  virtual std::string Ping() const { return ": ping\n\n"; }
};

/// A server-sent event with a name.
inline std::string NamedEvent(const std::string& name, const std::string& data) {
  return "event: " + name + "\ndata: " + data + "\n\n";
}

}  // namespace quire
