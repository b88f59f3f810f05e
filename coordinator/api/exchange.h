#pragma once

#include <string>

#include "coordinator/api/answer_form.h"
#include "coordinator/api/data_api.h"
#include "coordinator/api/openai_response.h"

namespace quire {

/// Holds a call's places while it is pending: one from its arrival, one for each choice once those are known. They are
/// given back when the generation ends, whatever time its client takes to read.
class DataApi::Slot {
 public:
  Slot(DataApi& api, const std::string& client) : api_(api), places_(api.places_, client) { Widen(1); }
  ~Slot() {
    Release();
    --api_.num_sending_;
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void Widen(int choices) { places_.Resize(choices); }
  void Release() {
    if (places_.count() == 0) return;
    Widen(0);
    ++api_.num_sending_;
  }

 private:
  DataApi& api_;
  PendingPlaces::Taken places_;
};

/// One call and where its answer goes.
struct DataApi::Exchange {
  /// A server-sent event.
  static std::string EventText(const Json& json) { return "data: " + DumpJson(json) + "\n\n"; }
  /// The same for a chunk of a choice: each carries usage, null but where it is wanted all along, when usage was asked
  /// for.
  std::string ChunkText(Json chunk) const {
    if (call.include_usage) chunk["usage"] = call.continuous_usage ? usage.ToJson() : Json();
    return EventText(chunk);
  }

  /// What is charged for texts grows with them; false: there is no memory for so much.
  bool HoldText(int64_t bytes) {
    if (bytes <= text_bytes) return true;
    if (memory.Resize(memory.bytes() + bytes) != ByteBudget::Verdict::kTaken) return false;
    text_bytes += bytes;
    return true;
  }
  /// The same for a stream that ends with all of its text.
  bool HoldEvent(const GenerationEvent& event) {
    const int64_t held = form ? form->held_bytes() : 0;
    return held == 0 || HoldText(2 * (held + static_cast<int64_t>(event.text.size())));
  }

  const GenerateCall& call;
  const std::string client;
  ResponseBuilder builder;
  Usage usage;
  std::string echo;
  int64_t text_bytes;  // charged for texts
  HttpResponder& responder;
  ByteBudget::Lease& memory;
  Slot& slot;
  std::unique_ptr<AnswerForm> form = nullptr;  // null: OpenAI's completions
};

}  // namespace quire
