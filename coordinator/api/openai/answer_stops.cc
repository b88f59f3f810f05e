#include "coordinator/api/openai/answer_stops.h"

#include <utility>

namespace quire {

AnswerStops::AnswerStops(const StopMatcher& stops, bool has_stops, const AnswerShape& shape)
    : fresh_(stops), stops_(stops), parser_(has_stops ? MakeAnswerParser(shape) : nullptr) {}

AnswerStops::Output AnswerStops::Push(const std::string& text, bool may_stop) {
  may_stop_ = may_stop;
  if (parser_ != nullptr) {
    AnswerParts parts;
    parser_->Push(text, parts);
    Output out = Take(parts);
    out.text = text;
    return out;
  }
  if (!may_stop) return {text};
  StopMatcher::Output found = stops_.Push(text);
  return {std::move(found.text), kAll, found.stopped, std::move(found.stop)};
}

AnswerStops::Output AnswerStops::Finish(bool cut) {
  if (parser_ == nullptr) return {stops_.Finish()};
  AnswerParts parts;
  parser_->Finish(cut, parts);
  Output out = Take(parts);
  if (!out.stopped) out.words = kAll;
  return out;
}

AnswerStops::Output AnswerStops::Take(const AnswerParts& parts) {
  for (const AnswerPart& part : parts) {
    if (part.kind != AnswerPart::kContent && part.kind != AnswerPart::kBroken) {
      words_ += stops_.Finish().size();
      stops_ = fresh_;
      continue;
    }
    StopMatcher::Output found = may_stop_ ? stops_.Push(part.text) : StopMatcher::Output{part.text};
    words_ += found.text.size();
    if (found.stopped) return {"", words_, true, std::move(found.stop)};
  }
  return {"", words_};
}

}  // namespace quire
