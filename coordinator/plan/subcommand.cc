#include "coordinator/plan/subcommand.h"

#include <memory>
#include <vector>

#include "coordinator/cli/serve_flags.h"
#include "coordinator/log/log.h"
#include "coordinator/plan/command.h"

namespace quire {

Subcommand AddPlan(CLI::App& app) {
  struct State {
    ServerCommand server;
    PlanCommand plan;
  };
  const auto state = std::make_shared<State>();
  CLI::App* plan = app.add_subcommand("plan", "Say what a topology will take and how fast it will be; starts nothing");
  AddServeFlags(*plan, state->server.flags);
  plan->add_option("--rank-memory", state->plan.rank_memory_gib,
                   "GiB that each rank may take, instead of what its host has free now")
      ->check(CLI::PositiveNumber);
  plan->add_option("--peaks", state->plan.peaks,
                   "What all ranks together read and compute at the most: GB/s and TFLOP/s, instead of measuring")
      ->expected(2)
      ->check(CLI::PositiveNumber);
  plan->add_flag("!--no-speed", state->plan.speed, "Leave speed out: nothing is measured");
  plan->add_flag("--best", state->plan.cuts.best,
                 "Also compare tensor and pipeline parallelism among as many workers, over the links between them");
  plan->add_option("--link", state->plan.cuts.link,
                   "The network between hosts: Gbit/s, and ms one way, instead of measuring; without nodes each worker "
                   "is thought to have a host of its own")
      ->expected(2)
      ->check(CLI::PositiveNumber);
  plan->get_option("--no-speed")->excludes("--best")->excludes("--link");
  plan->add_option("--streams", state->plan.cuts.streams, "Sequences in a step, for --best and --link (1 32)")
      ->expected(1, 16)
      ->check(CLI::Range(1, 4096));
  plan->add_option("--simulate", state->plan.trace,
                   "Also how requests of this file would fare: a line of JSON each, with timestamp (ms), input_length, "
                   "output_length and hash_ids, as Mooncake's traces");
  plan->add_option("--rates", state->plan.rates, "How many times as fast they come: a forecast each (0.25 0.5 1 2 4)")
      ->expected(1, 64)
      ->default_val(std::vector<double>{0.25, 0.5, 1, 2, 4})
      ->check(CLI::PositiveNumber);
  plan->add_flag("--json", state->plan.json, "Print the result as JSON");
  const auto check = [state] {
    state->server.Check();
    SetLogLevel(LogLevel::kWarn);
  };
  return {plan, check, [state] { return RunPlanCommand(state->server.topology, state->plan); }};
}

}  // namespace quire
