// The part of DataPort that accepts calls, from a request's body to tokens in the engine. answer_sending.cc sends the
// answers.
#include <boost/asio/this_coro.hpp>
#include <ctime>
#include <random>

#include "comm/base/error.h"
#include "coordinator/api/openai/answer_memory.h"
#include "coordinator/api/openai/exchange.h"
#include "coordinator/api/openai/messages_answer.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/openai/responses_answer.h"

namespace quire {

namespace asio = boost::asio;

namespace {

/// Cancels a running call when its client leaves or stops reading, and charges events that wait for a slow client.
/// Declare a GoneHook after the running call and the memory, so that it is destroyed before them.
class GoneHook {
 public:
  GoneHook(HttpResponder& responder, RunningCall& running, ByteBudget::Lease& memory)
      : when_gone_(responder,
                   [&running] {
                     running.Cancel();
                     running.events().Wake();
                   }),
        events_(running.events().shared_from_this()) {
    events_->is_stalled = [&responder] { return responder.stalled(); };
    events_->may_hold = [&memory, held = size_t{0}](size_t bytes) mutable {
      const int64_t without = memory.bytes() - static_cast<int64_t>(held);
      const bool taken = memory.Resize(without + static_cast<int64_t>(bytes)) == ByteBudget::Verdict::kTaken;
      if (taken) held = bytes;
      return taken;
    };
    events_->on_overflow = [&running] { running.Cancel(); };
  }
  ~GoneHook() {
    events_->is_stalled = nullptr;
    events_->may_hold = nullptr;
    events_->on_overflow = nullptr;
  }
  GoneHook(const GoneHook&) = delete;
  GoneHook& operator=(const GoneHook&) = delete;

 private:
  WhenGone when_gone_;
  std::shared_ptr<EventQueue> events_;  // shared: later events may still arrive
};

uint64_t RandomSeed() {
  std::random_device entropy;
  return uint64_t{entropy()} << 32 | entropy();
}

/// Returns a call's public id, which is random, so that it does not reveal the number of other calls.
std::string NewName(Dialect dialect) {
  static constexpr const char* kPrefixes[] = {"cmpl-",   "chatcmpl-", "msg_",      "resp_", "embd-",
                                              "rerank-", "score-",    "classify-", "pool-"};
  return fmt::format("{}{:016x}", kPrefixes[static_cast<size_t>(dialect)], RandomSeed());
}

/// Returns the form of the answer to a Messages or Responses call; null for other dialects. `max_tokens`: the most
/// tokens of the answer. `name`: the answer's id. `model`: the model's name in the answer.
std::unique_ptr<AnswerForm> FormOf(Dialect dialect, PreparedCall& prepared, int max_tokens, const std::string& name,
                                   const std::string& model, ResponseStore& store) {
  const ToolFormat calls = prepared.call.shape.format.tools;
  if (dialect == Dialect::kMessages) {
    const bool cut = max_tokens < prepared.call.max_tokens.value_or(max_tokens);
    return std::make_unique<MessagesForm>(
        name, model, MessagesForm::Terms{cut, calls, std::move(prepared.applied_edits), prepared.call.seals_thoughts});
  }
  if (dialect != Dialect::kResponses) return nullptr;
  auto keep = [&store, name, client = prepared.call.client](StoredResponse response) {
    return store.Put(client, name, std::move(response));
  };
  const ResponsesForm::Head head{name, model, std::time(nullptr)};
  return std::make_unique<ResponsesForm>(head, std::move(*prepared.terms), calls, std::move(keep));
}

}  // namespace

asio::awaitable<std::optional<PreparedCall>> DataPort::Admitted(ModelDesk& desk, HttpRequest& request,
                                                                HttpResponder& responder, Dialect dialect, Slot& slot,
                                                                ByteBudget::Lease& memory) {
  const auto body_bytes = static_cast<int64_t>(request.body.size());
  std::optional<HttpResponse> refusal = RefuseForLoad(desk, request.client, 0);
  if (!refusal) refusal = Charge(memory, request.client, body_bytes + CallPreparer::WorkBytes(request.body.size()));
  // While the call is prepared, the client is charged for the body's tokens; a call that runs is charged for its
  // prompts' tokens.
  if (!refusal) refusal = TakeTokens(request.client, request.body.size());
  const auto meter = refusal ? nullptr : quotas_.Meter(request.client);
  const int64_t tokens_of_body = KeyQuotas::TokensOfBody(request.body.size());
  std::optional<PreparedCall> prepared;
  if (!refusal) {
    prepared = co_await Prepare(desk, request, responder, dialect);
    if (!prepared) co_return std::nullopt;  // the client left
    responder.ForgetContent();
    slot.Widen(prepared->num_sampled());
    if (meter != nullptr) *meter -= tokens_of_body;
    const bool had_room = !prepared->prompts.empty();
    refusal = RefuseForLoad(desk, request.client, had_room ? 0 : desk.model.max_pending() + 1);
    if (!refusal) refusal = RefuseForQuota(request.client, prepared->num_sampled());
  }
  if (!refusal) {
    const int max_tokens = prepared->max_tokens = desk.MaxTokens(prepared->call, prepared->longest_prompt);
    refusal = Charge(memory, request.client, HeldBytes(*prepared, max_tokens) + TextBytes(*prepared, max_tokens));
  }
  if (!refusal) {
    // Only one grammar compiles at a time. A call that waits for the compiler is already charged for its memory.
    const bool wanted = co_await TryGrammar(desk, prepared->call, request.share, responder);
    if (!wanted) prepared.reset();
    co_return prepared;
  }
  if (prepared && meter != nullptr) *meter += tokens_of_body;
  HttpResponse response = std::move(*refusal);
  co_await responder.Send(std::move(response));
  co_return std::nullopt;
}

asio::awaitable<void> DataPort::Generate(HttpRequest& request, HttpResponder& responder, Dialect dialect) {
  ModelDesk* const found = co_await desks_.Find(request, responder);
  if (found == nullptr) co_return;  // the client left
  ModelDesk& desk = *found;
  // A client at its limit of pending choices is refused before its body is parsed.
  Slot slot(*this, desk, request);
  ByteBudget::Lease memory = std::move(request.memory);
  std::optional<PreparedCall> prepared = co_await Admitted(desk, request, responder, dialect, slot, memory);
  if (!prepared) co_return;
  const int max_tokens = prepared->max_tokens;
  GenerateCall& call = prepared->call;
  const KeyQuotas::Place place(quotas_, request.client, prepared->num_sampled());
  call.client = request.client;
  call.background = request.background;
  call.client_limits = quotas_.EngineLimits(call.client);
  call.client_tokens = quotas_.Meter(call.client);
  if (!call.has_seed)
    call.sampling.seed = options_.seed ? static_cast<uint64_t>(*options_.seed) + next_id_ : RandomSeed();
  if (call.client_tokens != nullptr) *call.client_tokens += prepared->prompt_tokens;
  const RequestId id = next_id_;
  next_id_ += prepared->prompts.size();
  const std::string name = NewName(dialect);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::vector<std::vector<TokenId>> prompt_ids;
  if (call.return_token_ids) prompt_ids = prepared->prompts;
  const int64_t reserved = ReservedBytes(*prepared);
  const WorkPool::Computing computing(means_.pool), beside_grammars(means_.grammar_pool);
  const CallContext context{desk.model.text().tokenizer, means_.keeper, desk.model, desk.model.spec().eos_token_ids,
                            request.share};
  RunningCall running(context, call, std::move(prepared->prompts), max_tokens, id, name, executor);
  Exchange exchange{desk,
                    call,
                    request.share,
                    name.substr(name.find_first_of("-_") + 1),
                    {context.tokenizer, call.chat, name, desk.preparer.ModelOf(call), std::time(nullptr)},
                    {.prompt_tokens = static_cast<int>(prepared->prompt_tokens)},
                    std::move(prepared->echo),
                    std::move(prompt_ids),
                    TextBytes(*prepared, max_tokens),
                    responder,
                    memory,
                    slot,
                    {}};
  for (int i = 0; call.chat && i < running.num_choices(); ++i)
    exchange.choices.emplace_back(call.shape, call.include_reasoning);
  exchange.form = FormOf(dialect, *prepared, max_tokens, name, desk.preparer.ModelOf(call), responses_.store());
  exchange.pooling = std::move(prepared->pooling);
  exchange.made_bytes = reserved;
  if (exchange.form && call.stream) exchange.kept_bytes = reserved;
  exchange.builder.ShowIds(call.return_token_ids, call.tokens_as_ids);
  const GoneHook hook(responder, running, memory);
  if (call.stream) {
    co_await AnswerStream(running, exchange);
  } else {
    co_await AnswerWhole(running, exchange);
  }
}

}  // namespace quire
