#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/batches/line_port.h"
#include "coordinator/api/batches/line_responder.h"
#include "coordinator/http/byte_budget.h"
#include "coordinator/http/work_pool.h"

namespace quire {

class SpilledAnswer;

/// Runs the requests of batches like other requests of their clients, but without a connection. Each client's batches
/// run one after the other, the oldest first; batches of different clients share the places for requests equally. While
/// a batch has more than its part and another batch waits for a place, its latest requests are stopped, and run again
/// later. Expired and cancelled batches do not wait for batches that run. A batch's requests use its client's share of
/// memory. Other requests go first (HttpRequest::background): while other requests wait or run, only one request of
/// each client's batches runs at a time. All methods run on the I/O thread; the store is used on the disk's thread.
class BatchRunner {
 public:
  /// At most `concurrency` requests run at the same time. Calls `may_run` before every request, to learn whether the
  /// client's key may still generate. The references must outlive this object.
  BatchRunner(BatchStore& store, WorkPool& disk, ByteBudget& memory, int concurrency,
              std::function<bool(const std::string&)> may_run)
      : store_(store), disk_(disk), memory_(memory), concurrency_(concurrency), may_run_(std::move(may_run)) {}

  /// Begins to run batches. The port must outlive the coroutines on `io`.
  void Begin(const boost::asio::any_io_executor& io, LinePort& port);
  /// Makes the runner look at the batches again. Call it after a batch was created or cancelled.
  void Wake();
  int in_flight() const { return in_flight_; }
  /// Fills in how many requests of the batch run now, and what the batch waits for, unless the batch is over.
  void Complete(BatchView& view) const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kAfterFailure{5};  // pause after the disk failed
  /// The purpose for which the runner works on a batch. kRun: to run the batch's requests until its window ends.
  /// kExpire: to end a batch whose window ended before the work began. kCancel: to end a batch that was cancelled
  /// before the work began; its input is not read.
  enum class Turn { kRun, kExpire, kCancel };
  struct Active;  // a batch that is worked on
  /// `in_all`: the number of requests of batches that may now run at the same time. `each`: every batch may run this
  /// many requests, even if all batches together then run more than `in_all`, but at most `concurrency`.
  struct Places {
    int in_all = 0, each = 0;
  };
  class OpenTimer;  // the timer that Wake cancels
  using ActivePtr = std::shared_ptr<Active>;

  boost::asio::awaitable<void> Run();
  void Update(const std::vector<UnfinishedBatch>& unfinished);
  bool MayBegin(const UnfinishedBatch& batch, Turn turn) const;
  bool Begin(const UnfinishedBatch& batch, Turn turn);
  void Drop(const ActivePtr& batch);
  void Spawn(boost::asio::awaitable<void> work);
  boost::asio::awaitable<void> Read(ActivePtr batch);
  static void Stop(Active& batch, BatchStatus ends_as);
  void StopWhatIsOver();
  void StartLines();
  bool HasLine(const Active& batch) const;
  Places PlacesNow() const;
  bool MayGo(const std::string& client) const;
  std::string WhyWaiting(const BatchView& view, const ActivePtr& active) const;
  ActivePtr NextWithLine() const;
  void TakeAPlaceBack(int each);
  boost::asio::awaitable<void> RunLine(ActivePtr batch, LinePlace place);
  boost::asio::awaitable<bool> TryLine(ActivePtr batch, const LinePlace& place);
  boost::asio::awaitable<std::optional<HttpResponse>> Ask(ActivePtr batch, std::string body, std::string request_id,
                                                          std::shared_ptr<SpilledAnswer> spilled);
  bool PutOff(Active& batch, const LinePlace& place, const HttpResponse& answer);
  boost::asio::awaitable<void> Record(ActivePtr batch, bool well, std::shared_ptr<ResultLine> line);
  boost::asio::awaitable<void> End(ActivePtr batch);
  boost::asio::awaitable<void> Pause(std::chrono::milliseconds time);

  BatchStore& store_;
  WorkPool& disk_;
  ByteBudget& memory_;
  const int concurrency_;
  std::function<bool(const std::string&)> may_run_;
  boost::asio::any_io_executor io_;
  LinePort* port_ = nullptr;                    // null before Begin()
  boost::asio::steady_timer* timer_ = nullptr;  // the timer that Run() waits for; null when Run() has ended
  std::list<ActivePtr> active_;                 // the batch whose request begins next comes first
  std::set<std::string> lacking_memory_;        // batches that could not run for lack of memory at the latest Update()
  int in_flight_ = 0;                           // number of requests that run
  bool changed_ = true;
};

}  // namespace quire
