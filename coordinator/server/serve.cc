#include "coordinator/server/serve.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/process_hardening.h"
#include "coordinator/api/admin/admin_api.h"
#include "coordinator/api/admin/metrics_page.h"
#include "coordinator/api/batches/batch_service.h"
#include "coordinator/api/models/model_keeper.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/api/openai/data_port.h"
#include "coordinator/api/openai/messages_answer.h"
#include "coordinator/cluster/launch/placement.h"
#include "coordinator/http/http_server.h"
#include "coordinator/http/io_shares.h"
#include "coordinator/http/process_limits.h"
#include "coordinator/log/log.h"
#include "coordinator/server/before_ready.h"
#include "coordinator/server/bounded_end.h"
#include "coordinator/server/data_options.h"
#include "coordinator/server/exposure.h"
#include "coordinator/server/gates.h"
#include "coordinator/server/request_logs.h"
#include "coordinator/server/settings_file.h"

namespace quire {

namespace asio = boost::asio;

namespace {
constexpr auto kLastAnswers = std::chrono::milliseconds(150);  // each of the last two pauses (Leave)
constexpr auto kJoinLimit = std::chrono::seconds(20), kHurriedJoinLimit = std::chrono::seconds(3);  // waits for threads
void AddRoutes(DataPort::Options& options, std::vector<std::vector<Routes<DataHandler>::Route>> routes) {
  for (auto& some : routes) std::ranges::move(some, std::back_inserter(options.more_routes));
}
/// True when the coordinator must leave the cores to the workers on this host. Several models share all cores.
bool IsBesideWorkers(const Topology& topology) {
  return NumModels(topology) > 1 || WorkersNeedAllCores(topology, WorkPool::Limits().threads);
}

/// Returns the limits of the pool that compiles grammars on trial.
WorkPool::Limits OfGrammars(const Topology& topology) {
  return {.threads = 1,
          .jobs = 1024,
          .jobs_per_client = 128,
          .large_bytes = SIZE_MAX,
          .beside_workers = IsBesideWorkers(topology),
          .at_once = std::chrono::seconds(1)};
}

/// Returns the limits of the pool for files and batches.
WorkPool::Limits OfDisk(const Topology& topology) {
  const bool beside_workers = IsBesideWorkers(topology);
  return {.threads = 1, .large_bytes = SIZE_MAX, .beside_workers = beside_workers, .job_time = {}};
}

constexpr int64_t kAdminMemoryBytes = 256 << 20;  // memory limit of all requests to the admin port and their answers

/// One server. Opens the listeners first, so that an occupied port is reported before models are loaded. Then starts
/// the workers, and then the APIs. The I/O thread runs from the beginning to the end.
class Server {
 public:
  /// Opens the listeners. `topology` has limits adapted to this process; `given_limits` are the limits that the
  /// operator set.
  Server(const Topology& topology, const Topology::Limits& given_limits, const std::function<Topology()>& read_again)
      : topology_(topology),
        given_limits_(given_limits),
        file_(read_again),
        gates_(std::make_unique<Gates>(topology)),
        logs_(ReadAsSettings([&] { return RequestLogs(topology); })),
        models_(topology),
        kept_(ReadAsSettings([&] { return OpenBatchStore(topology.batches); })),
        data_memory_({topology.limits.memory_bytes, topology.limits.memory_bytes_per_client}),
        io_(std::make_unique<asio::io_context>(1)),
        signals_(std::make_unique<asio::signal_set>(*io_, SIGTERM, SIGINT)),
        drain_timer_(std::make_unique<asio::steady_timer>(*io_)) {
    topology_.model = models_.first().topology().model;
    const HttpService on_data = {
        [this](HttpRequest& head) { return AdmitData(head); },
        [this](HttpRequest& request, HttpResponder& responder) { return HandleData(request, responder); },
        Counted("data", data_port_), RestateForMessages};
    const HttpService on_admin = {
        [this](HttpRequest& head) { return AdmitAdmin(head); },
        [this](HttpRequest& request, HttpResponder& responder) { return admin_api_->Handle(request, responder); },
        Counted("admin", admin_api_)};
    data_server_ = std::make_unique<HttpServer>(*io_, *ParseHostPort(topology.server.listen),
                                                HttpLimits{.upload_bytes = kUploadBodyBytes, .chosen = topology.limits},
                                                gates_->data.Guard(on_data), gates_->data_certificate.get());
    admin_server_ =
        std::make_unique<HttpServer>(*io_, *ParseHostPort(topology.admin.listen), AdminLimits(),
                                     logs_.Audit(gates_->admin.Guard(on_admin)), gates_->admin_certificate.get());
    if (!topology.metrics.listen.empty()) {
      metrics_server_ = std::make_unique<HttpServer>(*io_, *ParseHostPort(topology.metrics.listen), MetricsLimits(),
                                                     gates_->metrics.Guard(MetricsService(metrics_page_)), nullptr);
    }
    gates_->ReloadOnSignal(*io_, [this] { logs_.Reopen(), file_.Follow(*io_, control_); });
  }

  int Run() {
    AwaitSignal();
    io_thread_ = std::thread([this] { RunIo(*io_); });
    int status = 1;
    try {
      status = ServeUntilFinished();
    } catch (const std::exception& error) {
      if (!stop_requested_) spdlog::error("{}", error.what());
      status = stop_requested_ ? 0 : StatusOf(error);
    }
    models_.End();
    StopIo([] {});
    return status;
  }

 private:
  int ServeUntilFinished() {
    const auto begin = std::chrono::steady_clock::now();
    int status = 0;
    {
      models_.Start([this](size_t model, const std::string& reason) {
        const std::lock_guard lock(io_mutex_);
        if (io_ != nullptr) asio::post(*io_, [this, model, reason] { OnModelLost(model, reason); });
      });
      WorkPool pool({.beside_workers = IsBesideWorkers(topology_)});
      WorkPool grammar_pool(OfGrammars(topology_));
      Metrics metrics(models_.Topologies());
      WorkPool disk_pool(OfDisk(topology_));
      BatchService batches(kept_.get(), disk_pool, data_memory_, topology_.batches.concurrency,
                           [this](const std::string& client) { return gates_->data.Knows(client); });
      const auto batch_numbers = [&batches] { return batches.Numbers(); };
      ModelKeeper keeper(models_, *io_,
                         {[this] { return static_cast<double>(topology_.limits.queue_seconds); },
                          [this](ServedModel& model) { control_->OnLoaded(model); },
                          [this](const std::string& reason) { OnWorkersLost(reason); }});
      MetricsPage metrics_page(metrics, models_, keeper, batch_numbers);
      HistoryRecorder history(metrics, models_);
      DataPort::Options options{topology_.seed, topology_.key_limits, topology_.server.chat_page, batches.MakeRoutes()};
      AdapterPages adapters(models_, pool);
      SleepPages sleep(models_, keeper);
      AddRoutes(options, {adapters.RoutesOfDataPort(), sleep.RoutesOfDataPort()});
      if (topology_.metrics.on_data_port) options.more_routes.push_back(MetricsRoute(metrics_page));
      const DataPort::Means means{data_memory_, pool, grammar_pool, keeper};
      DataPort data(std::move(options), models_, metrics, means);
      LiveSettings settings(AsGiven(), [&](const Topology& now) { Apply(now, data); });
      AdminControl control(models_, settings,
                           {[&](bool draining, bool paused) { data.SetAccepting(draining || stop_requested_, paused); },
                            [&] { return data.unfinished(); }});
      const auto client_of_key = [this](const std::string& key) { return gates_->data.ClientOf(key); };
      const auto list_batches = [&batches](BatchFilter filter) { return batches.Views(std::move(filter)); };
      AdminReports::Server server{settings,     keeper,        ExposureWarnings(topology_),
                                  data_memory_, batch_numbers, list_batches};
      AdminApi admin({std::move(server), client_of_key, adapters, sleep}, models_, metrics_page, history, control,
                     keeper, pool);
      history.Start(*io_);
      asio::post(*io_, [&] {
        data_port_ = &data, admin_api_ = &admin, control_ = &control, metrics_ = &metrics;
        metrics_page_ = &metrics_page, batches_ = &batches;
        PublishKeeper(keeper);
        asio::use_service<IoShares>(*io_).RestWhile([&pool] { return pool.bounds_clients(); });
        batches.Begin(io_->get_executor(), data);
      });
      TellReady(begin);
      finished_.wait(false);
      const BoundedEnd end(hurried_ ? kHurriedJoinLimit : kJoinLimit);
      // Connections refer to the APIs and to the models, so connections end first.
      StopIo([&] {
        models_.StopLoops();
        for (WorkPool* const each : {&pool, &grammar_pool, &disk_pool}) each->Stop();
      });
      status = workers_lost_ ? 1 : 0;
    }
    models_.StopWorkers("the server is shutting down");
    spdlog::info("stopped");
    return status;
  }

  void TellReady(std::chrono::steady_clock::time_point begin) const {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    spdlog::info("ready after {:.1f} s: {} on {}://{}:{}, admin on port {}, {} workers", took.count(),
                 fmt::join(models_.Names(), ", "), topology_.server.certificate.empty() ? "http" : "https",
                 ParseHostPort(topology_.server.listen)->host, data_server_->port(), admin_server_->port(),
                 models_.num_workers());
  }

  /// Returns the topology with the operator's own limits, and with the values chosen for "auto" settings.
  Topology AsGiven() const {
    Topology given = topology_;
    given.limits = given_limits_;
    return given;
  }

  /// Ends the I/O thread, then the threads that deliver to it (stop_senders), then every connection. Later calls do
  /// nothing.
  void StopIo(const std::function<void()>& stop_senders) {
    if (!io_thread_.joinable()) return;
    io_->stop();
    io_thread_.join();
    stop_senders();
    data_server_.reset(), admin_server_.reset(), metrics_server_.reset();
    gates_.reset(), signals_.reset(), drain_timer_.reset();
    std::unique_ptr<asio::io_context> ending;
    const std::lock_guard lock(io_mutex_);
    ending = std::move(io_);  // destroys waiting connections together with the calls that they serve
  }

  // The functions below run on the I/O thread.

  /// Applies the current settings to the parts of the server outside the engines.
  void Apply(const Topology& now, DataPort& data) {
    SetLogLevel(now.logs.level);
    topology_.limits.drain_seconds = now.limits.drain_seconds;
    topology_.limits.queue_seconds = now.limits.queue_seconds;
    data_server_->SetTimes(now.limits);
    data_memory_.SetLimits({now.limits.memory_bytes, now.limits.memory_bytes_per_client});
    data.SetKeyLimits(now.key_limits);
    gates_->NoteKeyLimits(now.key_limits);
  }

  /// Returns a function that logs a port's requests and counts them in the metrics.
  template <class Api>
  std::function<void(const RequestRecord&)> Counted(const char* port, Api* const& api) {
    return [this, &api, port](const RequestRecord& record) {
      logs_.Write(port, record);
      if (metrics_ != nullptr) metrics_->http().Observe(api->RouteOf(record.path), record);
    };
  }

  void AwaitSignal() {
    signals_->async_wait([this](boost::system::error_code error, int) {
      if (error) return;
      hurried_ = stop_requested_.exchange(true);
      models_.Cancel();
      if (keeper_ != nullptr) keeper_->Close();
      if (hurried_) return Finish();
      const std::chrono::seconds limit(topology_.limits.drain_seconds);
      spdlog::info("stopping: requests that are running may finish within {} s; a second signal stops now",
                   limit.count());
      AwaitSignal();
      Drain(limit);
    });
  }

  void OnWorkersLost(const std::string& reason) {
    spdlog::error("the worker group is lost: {}", reason);
    workers_lost_ = true;
    Drain(std::chrono::seconds(2));  // time for the errors to reach their clients
  }

  /// Reports to the keeper that a model has lost its workers for good. If the keeper does not exist yet, it gets the
  /// report once it exists.
  void OnModelLost(size_t model, const std::string& reason) {
    if (keeper_ != nullptr) return keeper_->OnLost(model, reason);
    early_losses_.emplace_back(model, reason);
  }

  void PublishKeeper(ModelKeeper& keeper) {
    keeper_ = &keeper;
    if (stop_requested_) keeper.Close();
    for (const auto& [model, reason] : std::exchange(early_losses_, {})) keeper.OnLost(model, reason);
  }

  /// Waits at most `limit` until all requests have ended, then ends the server. Meanwhile the port answers /health with
  /// status 200, and /ready and new work with 503.
  void Drain(std::chrono::seconds limit) {
    data_server_->EndConnections();
    if (data_port_ != nullptr) data_port_->SetAccepting(true, false);
    AwaitIdle(std::chrono::steady_clock::now() + limit);
  }

  void AwaitIdle(std::chrono::steady_clock::time_point deadline) {
    const bool idle = data_port_ == nullptr || data_port_->unfinished() == 0;
    if (idle || std::chrono::steady_clock::now() >= deadline) return Leave();
    After(std::chrono::milliseconds(20), [this, deadline] { AwaitIdle(deadline); });
  }

  /// Waits for kLastAnswers, in which clients that got an answer may send another request. Then stops accepting
  /// connections, and ends the server after a further wait in which answers are sent.
  void Leave() {
    After(kLastAnswers, [this] {
      data_server_->StopAccepting();
      After(kLastAnswers, [this] { Finish(); });
    });
  }

  void After(std::chrono::milliseconds time, std::function<void()> next) {
    drain_timer_->expires_after(time);
    drain_timer_->async_wait([next = std::move(next)](boost::system::error_code error) {
      if (!error) next();
    });
  }

  void Finish() {
    finished_ = true;
    finished_.notify_all();
  }

  std::optional<HttpResponse> AdmitData(HttpRequest& head) {
    if (data_port_ != nullptr) {
      if (std::optional<HttpResponse> refusal = batches_->Admit(head)) return refusal;
      return data_port_->Admit(head);
    }
    return head.body_bytes > 0 ? std::optional(NotReady()) : std::nullopt;
  }

  /// Returns the refusal of a request to the admin port, if any, and charges the request's memory. The admin port has a
  /// separate memory budget, so that clients of the data port cannot block operators.
  std::optional<HttpResponse> AdmitAdmin(HttpRequest& head) {
    if (admin_api_ == nullptr) return NotReady();
    if (std::optional<HttpResponse> refusal = admin_api_->Admit(head)) return refusal;
    head.memory = admin_memory_.For("");
    if (head.memory.Resize(static_cast<int64_t>(head.body_bytes)) == ByteBudget::Verdict::kTaken) return std::nullopt;
    return ErrorResponse(429, "too many large requests at once; try again later");
  }

  asio::awaitable<void> HandleData(HttpRequest& request, HttpResponder& responder) {
    if (data_port_ != nullptr) {
      co_await data_port_->Handle(request, responder);
      co_return;
    }
    HttpResponse response = AnswerBeforeReady(request);
    co_await responder.Send(std::move(response));
  }

  Topology topology_;  // has the values that were chosen for "auto" settings
  const Topology::Limits given_limits_;
  SettingsFile file_;
  std::unique_ptr<Gates> gates_;
  RequestLogs logs_;
  ModelRoster models_;
  std::unique_ptr<BatchStore> kept_;  // the store of files and batches; null: there is no batch directory
  ByteBudget data_memory_, admin_memory_{{kAdminMemoryBytes, kAdminMemoryBytes}};  // connections hold leases of both
  std::mutex io_mutex_;  // guards the pointer io_ against engine threads
  std::unique_ptr<asio::io_context> io_;
  std::unique_ptr<asio::signal_set> signals_;
  std::unique_ptr<asio::steady_timer> drain_timer_;
  std::unique_ptr<HttpServer> data_server_, admin_server_, metrics_server_;
  DataPort* data_port_ = nullptr;  // null until the workers are ready, like the next six members
  AdminApi* admin_api_ = nullptr;
  AdminControl* control_ = nullptr;
  Metrics* metrics_ = nullptr;
  MetricsPage* metrics_page_ = nullptr;
  BatchService* batches_ = nullptr;
  ModelKeeper* keeper_ = nullptr;
  std::vector<std::pair<size_t, std::string>> early_losses_;
  std::thread io_thread_;
  std::atomic<bool> stop_requested_{false}, hurried_{false}, finished_{false};
  bool workers_lost_ = false;
};

}  // namespace

int Serve(const Topology& topology, const std::function<Topology()>& read_again) {
  ::signal(SIGPIPE, SIG_IGN);
  HardenProcess();
  if (HasSecrets(topology)) ForbidCoreDumps();
  for (const std::string& warning : ExposureWarnings(topology)) spdlog::warn("{}", warning);
  Topology here = topology;
  here.limits = LimitsOfThisProcess(topology.limits);
  if (const std::string few = DescriptorWarning(topology.limits, here.limits); !few.empty()) spdlog::warn("{}", few);
  return Server(here, topology.limits, read_again).Run();
}

}  // namespace quire
