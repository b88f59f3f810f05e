#include "coordinator/api/openai/model_desk.h"

#include <algorithm>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kReadHereBytes = 4 << 10;  // a smaller body is read on the I/O thread

/// Reads JSON up to the value of "model" in the outermost object.
class ModelFinder : public Json::json_sax_t {
 public:
  const std::string& found() const { return found_; }

  bool null() override { return GoOn(); }
  bool boolean(bool) override { return GoOn(); }
  bool number_integer(number_integer_t) override { return GoOn(); }
  bool number_unsigned(number_unsigned_t) override { return GoOn(); }
  bool number_float(number_float_t, const string_t&) override { return GoOn(); }
  bool binary(binary_t&) override { return GoOn(); }
  bool string(string_t& value) override {
    if (is_model_) found_ = value;
    return GoOn();
  }
  bool start_object(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& name) override {
    is_model_ = depth_ == 1 && name == "model";
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool GoOn() const { return !is_model_; }
  bool Enter() {
    ++depth_;
    return GoOn();
  }
  bool Leave() {
    --depth_;
    return true;
  }

  std::string found_;
  int depth_ = 0;
  bool is_model_ = false;  // the next value belongs to "model"
};

CallPreparer::Options PreparerOptions(const ServedModel& model, const RequestLimits& limits) {
  return {model.name(),
          limits,
          model.text().no_chat_reason,
          model.max_pending(),
          model.text().answer_format,
          model.text().pooling,
          model.topology().model.aliases,
          &model.adapters()};
}

}  // namespace

std::string ModelNamedIn(const std::string& body) {
  ModelFinder finder;
  (void)Json::sax_parse(body, &finder);
  return finder.found();
}

ModelDesk::ModelDesk(ServedModel& served, CallMetrics& call_metrics)
    : model(served),
      metrics(call_metrics),
      limits(served.LimitsOfCalls()),
      preparer(PreparerOptions(served, limits.request), served.text().tokenizer, served.text().chat.get()),
      text(served.text().tokenizer, limits.request.vocab_size, limits.request.max_model_len),
      chat(preparer, limits.request.max_model_len),
      places(served.max_pending()) {}

int ModelDesk::MaxTokens(const GenerateCall& call, size_t longest_prompt) const {
  if (limits.request.only_pools && call.only_prompt()) return *call.max_tokens;  // long prompts are refused by now
  const int room = limits.request.max_model_len - static_cast<int>(longest_prompt);
  const int64_t per_choice = limits.pool_tokens / call.best_of - static_cast<int64_t>(longest_prompt);
  if (room < 1) {
    throw ContextLengthError(
        limits.request.max_model_len,
        fmt::format("the prompt has {}, and the answer needs room, too: shorten it", longest_prompt),
        call.chat ? "messages" : "prompt");
  }
  if (!call.max_tokens) {
    return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({room, call.default_max_tokens(), per_choice})));
  }
  if (call.cut_to_context)
    return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({*call.max_tokens, room, per_choice})));
  if (*call.max_tokens > room) {
    throw ContextLengthError(limits.request.max_model_len,
                             fmt::format("max_tokens {} and the prompt's {} tokens exceed it: lower one of them",
                                         *call.max_tokens, longest_prompt),
                             "max_tokens");
  }
  return *call.max_tokens;
}

ModelDesks::ModelDesks(ModelRoster& models, Metrics& metrics, WorkPool& pool) : models_(models), pool_(pool) {
  for (size_t i = 0; i < models.size(); ++i)
    desks_.push_back(std::make_unique<ModelDesk>(models.at(i), metrics.calls(i)));
}

ModelDesk& ModelDesks::Named(const std::string& name) {
  if (const ServedModel* model = models_.Find(name)) return at(model->index());
  throw ApiError(404, "the model \"" + name.substr(0, 100) + "\" is not served here; GET /v1/models lists what is",
                 "model");
}

asio::awaitable<ModelDesk*> ModelDesks::Find(const HttpRequest& request, HttpResponder& responder) {
  if (size() == 1) co_return &first();  // the preparer refuses other names
  if (request.body.size() <= kReadHereBytes) co_return &Named(ModelNamedIn(request.body));
  std::function<std::string(const std::stop_token&)> read = [&request](const std::stop_token&) {
    return ModelNamedIn(request.body);
  };
  const std::optional<std::string> name =
      co_await OnPool(pool_, responder, request.share, request.body.size(), std::move(read));
  co_return name ? &Named(*name) : nullptr;
}

int ModelDesks::num_pending() const {
  int pending = 0;
  for (const auto& desk : desks_) pending += desk->places.taken();
  return pending;
}

int ModelDesks::max_pending() const {
  int most = 0;
  for (const auto& desk : desks_) most += desk->model.max_pending();
  return most;
}

int ModelDesks::max_running() const {
  int most = 0;
  for (const auto& desk : desks_) most += desk->model.max_running();
  return most;
}

}  // namespace quire
