#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "comm/base/error.h"
#include "comm/base/process_hardening.h"
#include "comm/wire/messages.h"
#include "worker/bench/bench_allreduce.h"
#include "worker/bench/bench_ceilings.h"
#include "worker/bench/bench_links.h"
#include "worker/serve/memory_plan.h"
#include "worker/serve/probe.h"
#include "worker/serve/worker.h"
#include "worker/serve/worker_log.h"

namespace {

/// The measurements that a worker can make instead of serving. At most one of them is requested.
struct Benches {
  quire::AllReduceBench sums;
  quire::CeilingsBench ceilings;
  quire::LinksBench links;

  bool IsAsked() const { return !sums.json_file.empty() || !ceilings.json_file.empty() || !links.cuts.empty(); }
  int Run(quire::MpiBootstrap& mpi) const {
    if (!sums.json_file.empty()) return quire::RunAllReduceBench(sums, mpi);
    if (!ceilings.json_file.empty()) return quire::RunCeilingsBench(ceilings, mpi);
    return quire::RunLinksBench(links, mpi);
  }
};

void AddBenches(CLI::App& app, Benches& benches) {
  quire::AllReduceBench& sums = benches.sums;
  app.add_option("--bench-allreduce", sums.json_file,
                 "Instead of serving, time sums over the ranks and write the results to this file");
  app.add_option("--bench-min-bytes", sums.min_bytes)->capture_default_str();
  app.add_option("--bench-max-bytes", sums.max_bytes)->capture_default_str();
  app.add_option("--bench-rounds", sums.rounds)->capture_default_str();
  app.add_option("--bench-ceilings", benches.ceilings.json_file,
                 "Instead of serving, measure what the ranks read and compute at the most and write it to this file");
  app.add_option("--bench-threads", benches.ceilings.threads)->check(CLI::Range(1, 1024))->capture_default_str();
  CLI::Option* cuts = app.add_option("--bench-links", benches.links.cuts,
                                     "Instead of serving, time what ranks wait for in a step with these cuts: ranks of "
                                     "a stage x stages, as 2x1,1x2");
  app.add_option("--bench-row-bytes", benches.links.row_bytes)->needs(cuts)->check(CLI::Range(4, 1 << 24));
  app.add_option("--bench-rows", benches.links.rows)->needs(cuts)->delimiter(',')->check(CLI::Range(1, 4096));
}

}  // namespace

int main(int argc, char** argv) {
  // A rank must not outlive its mpirun, so the kernel kills it when its parent process ends.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);

  quire::WorkerOptions options;
  Benches benches;
  quire::ProbeOptions probe;
  CLI::App app("One rank of a Quire worker group; launched by mpirun, led by a coordinator (quire serve).",
               "quire-worker");
  app.add_option("--coordinator", options.coordinator,
                 "Data endpoint of the coordinator: tcp://HOST:PORT or ipc://PATH");
  app.add_option("--epoch", options.epoch, "Epoch this worker group belongs to; without it the coordinator says");
  app.add_option("--node", options.node, "What the topology calls this host (default: its host name)");
  app.add_option("--keys", options.keys,
                 "Directory with the keys of the encrypted transport (quire keygen --transport)");
  std::string log_format(quire::NameOf(quire::LogFormat::kText));
  app.add_option("--log-format", log_format, "Lines on standard error: text, or json, an object each")
      ->check(CLI::IsMember(std::vector<std::string>{"text", "json"}))
      ->capture_default_str();
  AddBenches(app, benches);
  app.set_version_flag("--version", fmt::format("quire-worker {}", quire::kBuildVersion));
  bool probing = false;
  app.add_flag("--probe", probing, "Instead of serving, say what this host has (quire check asks)");
  app.add_option("--probe-interface", probe.interface)->needs("--probe");
  app.add_option("--probe-ports", probe.ports, "First and last")->expected(2)->needs("--probe");
  app.add_option("--probe-model", probe.model)->needs("--probe");
  app.add_option("--probe-keys", probe.keys)->needs("--probe");
  std::string assignment;
  app.add_option("--plan-memory", assignment,
                 "Instead of serving, say what each rank of this assignment would take (quire plan asks)");
  try {
    app.parse(argc, argv);
    if (probing) return quire::RunProbe(probe);
    if (options.coordinator.empty() && !benches.IsAsked() && assignment.empty())
      throw CLI::RequiredError("--coordinator");
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : quire::kSettingsStatus;
  }
  quire::SetWorkerLog(*quire::Named<quire::LogFormat>(log_format));
  try {
    quire::HardenProcess();
    if (!assignment.empty()) return quire::RunMemoryPlan(assignment);
    quire::MpiBootstrap mpi;
    if (benches.IsAsked()) return benches.Run(mpi);
    return quire::RunWorker(options, mpi);
  } catch (const std::exception& error) {
    quire::WorkerLog(quire::LogLevel::kError, -1, error.what());
    return quire::StatusOf(error);
  }
}
