#include "coordinator/api/batches/batch_runner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "coordinator/api/batches/active_batch.h"
#include "coordinator/api/batches/on_disk.h"

// g++ 12 miscompiles some co_await expressions, so the coroutines in this file avoid such expressions
// (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr auto kErrorAsValue = asio::as_tuple(asio::use_awaitable);
constexpr auto kBusyTick = std::chrono::milliseconds(20), kIdleTick = std::chrono::milliseconds(1000);
constexpr auto kBetweenPrunes = std::chrono::minutes(1);
constexpr size_t kScanBytes = 64 << 10;  // bytes of an input file that one job of the disk's thread reads
constexpr size_t kExpiredAtOnce = 500;   // expired requests that one job of the disk's thread records

}  // namespace

/// Makes a timer and gives it to the runner, so that Wake can end a wait. The object lives in the coroutine that waits,
/// so that the timer is destroyed before its io_context.
class BatchRunner::OpenTimer {
 public:
  explicit OpenTimer(BatchRunner& runner) : runner_(runner), timer_(runner.io_) { runner_.timer_ = &timer_; }
  ~OpenTimer() { runner_.timer_ = nullptr; }
  OpenTimer(const OpenTimer&) = delete;
  OpenTimer& operator=(const OpenTimer&) = delete;

 private:
  BatchRunner& runner_;
  asio::steady_timer timer_;
};

void BatchRunner::Begin(const asio::any_io_executor& io, LinePort& port) {
  io_ = io;
  port_ = &port;
  Spawn(Run());
}

void BatchRunner::Wake() {
  changed_ = true;
  if (timer_ != nullptr) timer_->cancel();
}

void BatchRunner::Spawn(asio::awaitable<void> work) {
  asio::co_spawn(io_, std::move(work), [](const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      spdlog::error("batches: {}", error.what());
    }
  });
}

asio::awaitable<void> BatchRunner::Pause(std::chrono::milliseconds time) {
  asio::steady_timer timer(io_);
  timer.expires_after(time);
  co_await timer.async_wait(kErrorAsValue);
}

asio::awaitable<void> BatchRunner::Run() {
  const OpenTimer open(*this);
  Clock::time_point pruned = Clock::now(), looked{};
  for (;;) {
    if (Clock::now() - looked >= kIdleTick) changed_ = true;  // a batch may have expired
    if (std::exchange(changed_, false)) {
      looked = Clock::now();
      std::function<std::vector<UnfinishedBatch>()> list = [this] { return store_.Unfinished(); };
      std::optional<std::vector<UnfinishedBatch>> unfinished =
          co_await TryOnDisk<std::vector<UnfinishedBatch>>(disk_, "", std::move(list));
      if (unfinished) Update(*unfinished);
    }
    StopWhatIsOver();
    StartLines();
    if (Clock::now() - pruned >= kBetweenPrunes) {
      pruned = Clock::now();
      std::function<bool()> prune = [this] { return store_.Prune(), true; };
      [[maybe_unused]] const std::optional<bool> done = co_await TryOnDisk<bool>(disk_, "", std::move(prune));
    }
    if (changed_) continue;  // a change came while this coroutine waited for the disk
    timer_->expires_after(active_.empty() ? kIdleTick : kBusyTick);
    co_await timer_->async_wait(kErrorAsValue);
  }
}

void BatchRunner::Stop(Active& batch, BatchStatus ends_as) {
  batch.stopping = true;
  batch.ends_as = ends_as;
  batch.rests_until = {};
}

/// Reads all of a batch's input, before its first request runs. A fault in any line fails the batch.
asio::awaitable<void> BatchRunner::Read(ActivePtr batch) {
  using Scan = std::shared_ptr<InputScan>;
  std::function<Scan()> open = [this, id = batch->id] { return Scan(store_.Scan(id)); };
  std::optional<Scan> scan = co_await TryOnDisk<Scan>(disk_, batch->client, std::move(open));
  std::optional<bool> whole = false;
  while (scan && whole && !*whole && !batch->stopping) {
    std::function<bool()> go_on = [scan = *scan] { return scan->Continue(kScanBytes); };
    whole = co_await TryOnDisk<bool>(disk_, batch->client, std::move(go_on));
  }
  std::optional<bool> over;
  if (scan && whole && *whole) {
    // A scan may hold much memory, so the disk's thread also frees the scan.
    std::function<bool()> end = [this, batch, scan = std::exchange(*scan, nullptr)]() mutable {
      const bool is_over = IsOver(store_.Validated(batch->id, *scan).status);
      if (!is_over) batch->pending = std::move(scan->pending());
      scan = nullptr;
      return is_over;
    };
    over = co_await TryOnDisk<bool>(disk_, batch->client, std::move(end));
  } else if (scan) {
    disk_.Add(batch->client, 0, [scan = std::move(*scan)](const std::stop_token&) {});
  }
  if (!over && !batch->stopping) {
    std::function<bool()> abandon = [this, id = batch->id] {
      store_.Abandon(id, "the server could not read the input file");
      return true;
    };
    over = co_await TryOnDisk<bool>(disk_, batch->client, std::move(abandon));
    if (!over) {
      co_await Pause(kAfterFailure);
      over = true;  // this call cannot tell whether the batch is over, so the next Update decides
    }
  }
  (void)batch->memory.Resize(static_cast<int64_t>(batch->pending.size() * sizeof(LinePlace)));
  if (over && *over) Drop(batch);
  batch->ready = true;
  Wake();
}

/// Ends cancelled batches, expired batches, and batches whose requests all have results.
void BatchRunner::StopWhatIsOver() {
  const std::list<ActivePtr> all = active_;
  for (const ActivePtr& batch : all) {
    if (batch->ready && !batch->stopping && !batch->ending && batch->expires_at <= NowSeconds())
      Stop(*batch, BatchStatus::kExpired);
    if (batch->stopping) {
      const std::vector<LineResponder*> running = batch->responders;
      for (LineResponder* responder : running) responder->Leave();
    }
    // The disk's thread uses batch->pending until the batch is ready, and again while the batch ends.
    if (!batch->ready || batch->ending || batch->in_flight > 0 || batch->rests_until > Clock::now()) continue;
    if (!batch->stopping && !batch->pending.empty()) continue;
    batch->ending = true;
    Spawn(End(batch));
  }
}

/// True when requests of the client's batches may run: its key may still generate, and the store has space for results.
bool BatchRunner::MayGo(const std::string& client) const { return may_run_(client) && store_.HasRoom(client); }

/// Returns the reason why no request of the batch runs; "" when requests may run. active: null when the runner does not
/// work on the batch.
std::string BatchRunner::WhyWaiting(const BatchView& view, const ActivePtr& active) const {
  if (active != nullptr && (active->stopping || active->ending)) return "";
  if (lacking_memory_.contains(view.id)) return "its requests find no room in the memory of requests";
  if (active == nullptr && view.expires_at <= NowSeconds()) return "its window has ended; others end before it";
  if (!may_run_(view.client)) return "its API key is gone or may not generate";
  if (!store_.HasRoom(view.client)) return "there is no room for its results";
  if (active == nullptr) {
    const bool own = std::ranges::any_of(active_, [&](const ActivePtr& one) { return one->client == view.client; });
    return own ? "an older batch of its client goes first" : "its turn has not come";
  }
  if (!active->ready) return "";  // the batch's status already says that its input is being read
  if (port_ != nullptr && port_->draining()) return "the server is draining";
  if (active->rests_until > Clock::now()) return "room or workers were lacking, or the disk failed; it tries again";
  return port_ != nullptr && port_->num_pending_of_others() > 0 ? "other requests go first" : "";
}

void BatchRunner::Complete(BatchView& view) const {
  if (view.over) return;
  const auto found = std::ranges::find(active_, view.id, [](const ActivePtr& active) { return active->id; });
  const ActivePtr active = found == active_.end() ? nullptr : *found;
  view.running = active == nullptr ? 0 : active->in_flight;
  view.why_waiting = WhyWaiting(view, active);
}

asio::awaitable<void> BatchRunner::End(ActivePtr batch) {
  std::optional<bool> done = true;
  while (done && batch->ends_as == BatchStatus::kExpired && !batch->pending.empty()) {
    std::function<bool()> expire = [this, batch] {
      return store_.RecordExpired(batch->id, batch->pending, kExpiredAtOnce), true;
    };
    done = co_await TryOnDisk<bool>(disk_, batch->client, std::move(expire));
  }
  if (done) {
    std::function<bool()> finish = [this, batch] { return store_.Finish(batch->id, batch->ends_as), true; };
    done = co_await TryOnDisk<bool>(disk_, batch->client, std::move(finish));
  }
  if (done) {
    Drop(batch);
  } else {
    batch->rests_until = Clock::now() + kAfterFailure;
    batch->ending = false;
  }
  Wake();
}

}  // namespace quire
