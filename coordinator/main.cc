#include <sodium.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "comm/model/formats/mapping_errors.h"
#include "comm/wire/messages.h"
#include "coordinator/bench/commands.h"
#include "coordinator/check/command.h"
#include "coordinator/cli/cache_command.h"
#include "coordinator/cli/completion.h"
#include "coordinator/cli/explain_paging.h"
#include "coordinator/cli/keygen.h"
#include "coordinator/cli/manual_sections.h"
#include "coordinator/cli/model_fetch.h"
#include "coordinator/cli/parse_command_line.h"
#include "coordinator/client/batch_run.h"
#include "coordinator/client/chat.h"
#include "coordinator/client/top.h"
#include "coordinator/client/warm.h"
#include "coordinator/cluster/launch/private_network.h"
#include "coordinator/grammars/compile_service.h"
#include "coordinator/journal/replay.h"
#include "coordinator/log/log.h"
#include "coordinator/plan/subcommand.h"
#include "coordinator/server/gates.h"
#include "coordinator/server/serve.h"
#include "coordinator/traces/trace_exporter.h"

namespace {

using quire::ServerCommand;
using quire::Subcommand;

Subcommand AddServe(CLI::App& app) {
  const auto state = std::make_shared<ServerCommand>();
  CLI::App* serve = app.add_subcommand("serve", "Launch the workers and serve the OpenAI API");
  quire::AddServeFlags(*serve, state->flags);
  const auto check = [state] {
    state->Check();
    quire::CheckKeyFiles(state->topology);
    quire::TakeOtelVariables(state->topology.traces.endpoint);
  };
  return {serve, check, [state] {
            return quire::Serve(state->topology, [state] { return quire::ValidSettingsFromFlags(state->flags); });
          }};
}

Subcommand AddCheck(CLI::App& app) {
  struct State {
    quire::ServeFlags flags;
    bool json = false;
  };
  const auto state = std::make_shared<State>();
  CLI::App* check =
      app.add_subcommand("check", "Look at everything that a start of this topology needs, on every node");
  quire::AddServeFlags(*check, state->flags);
  check->add_flag("--json", state->json, "Print the result as JSON");
  return {check, [] { quire::SetUpLog(quire::LogLevel::kWarn); },
          [state] { return quire::RunCheckCommand(state->flags, state->json, quire::CheckKeyFiles); }};
}

Subcommand AddChat(CLI::App& app) {
  struct State {
    quire::ChatCommand chat;
    std::optional<double> temperature, top_p;
    std::optional<int> max_tokens;
  };
  const auto state = std::make_shared<State>();
  CLI::App* chat = app.add_subcommand("chat", "Talk to a server that runs, on the terminal or through pipes");
  chat->add_option("url", state->chat.url, "http://HOST:PORT of the server, or https")->capture_default_str();
  chat->add_option("--model", state->chat.model, "What the server calls the model");
  chat->add_option("--key-file", state->chat.api_key_file, "File whose first line is the API key to send");
  chat->add_option("--system", state->chat.system, "What the assistant is told beforehand");
  chat->add_option("--temperature", state->temperature, "0: always the likeliest token");
  chat->add_option("--top-p", state->top_p, "Only the likeliest tokens that together have this probability");
  chat->add_option("--max-tokens", state->max_tokens, "Tokens of an answer at the most");
  return {chat, [] { quire::SetUpLog(quire::LogLevel::kWarn); },
          [state] {
            if (state->temperature) state->chat.fields["temperature"] = *state->temperature;
            if (state->top_p) state->chat.fields["top_p"] = *state->top_p;
            if (state->max_tokens) state->chat.fields["max_tokens"] = *state->max_tokens;
            return quire::RunChat(state->chat);
          }};
}

Subcommand AddBatch(CLI::App& app) {
  const auto command = std::make_shared<quire::BatchCommand>();
  CLI::App* batch = app.add_subcommand("batch", "Work through a file of requests");
  batch->require_subcommand(1);
  CLI::App* run =
      batch->add_subcommand("run", "Send a file of requests to a server that runs; again: the rest of them");
  run->add_option("file", command->input, "Requests in the form of OpenAI's batch files, one a line")->required();
  run->add_option("--output,-o", command->output, "File for the answers (FILE with .answers.jsonl)");
  run->add_option("--url", command->url, "http://HOST:PORT of the server, or https")->capture_default_str();
  run->add_option("--key-file", command->api_key_file, "File whose first line is the API key to send");
  run->add_option("--max-concurrency", command->max_concurrency, "Requests under way at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  run->add_option("--retries", command->retries, "Attempts more when the server has no room or cannot be reached")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  return {run, [] { quire::SetUpLog(quire::LogLevel::kWarn); }, [command] { return quire::RunBatch(*command); }};
}

Subcommand AddTop(CLI::App& app) {
  const auto command = std::make_shared<quire::TopCommand>();
  CLI::App* top = app.add_subcommand("top", "Watch a server that runs: blocks, ranks, requests");
  top->add_option("url", command->url, "http://HOST:PORT of its admin port, or https")->capture_default_str();
  top->add_option("--key-file", command->token_file, "File whose first line is the admin token to send");
  top->add_option("--interval", command->interval_seconds, "Seconds from one look to the next")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  return {top, [] { quire::SetUpLog(quire::LogLevel::kWarn); }, [command] { return quire::RunTop(*command); }};
}

Subcommand AddWarm(CLI::App& app) {
  const auto command = std::make_shared<quire::WarmCommand>();
  CLI::App* warm = app.add_subcommand("warm", "Have a running server cache a file of prompts before clients come");
  warm->add_option("file", command->input, "A prompt a line: a JSON text, token ids, or a request's body")->required();
  warm->add_option("--url", command->url, "http://HOST:PORT of the server, or https")->capture_default_str();
  warm->add_option("--key-file", command->api_key_file, "File whose first line is the API key to send");
  warm->add_option("--model", command->model, "Model of the prompts that name none; else the server's first");
  warm->add_option("--max-concurrency", command->max_concurrency, "Prompts at once")->check(CLI::Range(1, 1024));
  return {warm, [] { quire::SetUpLog(quire::LogLevel::kWarn); }, [command] { return quire::RunWarm(*command); }};
}

Subcommand AddPrinter(CLI::App& app, const char* name, const char* help, std::function<std::string()> text) {
  return {app.add_subcommand(name, help), [] {},
          [text] {
            fmt::print("{}", text());
            return 0;
          }};
}

Subcommand AddCompletion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "Print a script that completes commands and flags in a shell");
  completion->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return {completion, [] {},
          [shell, &app] {
            fmt::print("{}", quire::CompletionFor(*shell, app));
            return 0;
          }};
}

Subcommand AddExplain(CLI::App& app) {
  struct State {
    std::string request, journal;
  };
  const auto state = std::make_shared<State>();
  CLI::App* explain = app.add_subcommand("explain", "Tell the story of a request: why it waited, who preempted it");
  explain->add_option("request", state->request, "The request's number, or the id that the API answered")->required();
  explain->add_option("--journal", state->journal, "Directory of the step journal")->required();
  return {explain, [] { quire::SetUpLog(quire::LogLevel::kInfo); },
          [state] {
            fmt::print("{}", quire::LinesWithoutControls(quire::ExplainRequest(state->journal, state->request)));
            return 0;
          }};
}

Subcommand AddReplay(CLI::App& app) {
  const auto journal = std::make_shared<std::string>();
  CLI::App* replay = app.add_subcommand("replay", "Run the scheduler again over a step journal and compare every plan");
  replay->add_option("--journal", *journal, "Directory of the step journal")->required();
  return {replay, [] { quire::SetUpLog(quire::LogLevel::kInfo); },
          [journal] {
            const quire::ReplayResult result = quire::Replay(*journal);
            const std::string found = result.differing == 0 ? "every plan is the same"
                                                            : fmt::format("{} plans differ, first {}", result.differing,
                                                                          result.first_difference);
            fmt::print("{} segments, {} requests, {} steps: {}\n", result.segments, result.requests, result.steps,
                       quire::LinesWithoutControls(found));
            if (!result.foreign.empty())
              fmt::print("segments of another version, passed over: {}\n", quire::WithoutControls(result.foreign));
            if (!result.torn.empty())
              fmt::print("segments that end in a torn record: {}\n", quire::WithoutControls(result.torn));
            if (result.lost > 0) fmt::print("{} records are missing: the disk did not take them\n", result.lost);
            return result.differing == 0 ? 0 : 1;
          }};
}

Subcommand AddKeygen(CLI::App& app) {
  const auto command = std::make_shared<quire::KeygenCommand>();
  CLI::App* keygen = app.add_subcommand("keygen", "Make keys: of the workers' transport, of API clients, of the admin");
  keygen->add_option("--transport", command->transport_directory,
                     "Directory for the keys of coordinator and workers; those that are there stay");
  keygen->add_option("--ranks", command->ranks, "Workers to make keys for")->check(CLI::Range(1, 1024));
  keygen->add_option("--api", command->api_name, "Name of a client: appends its key's hash to --file");
  CLI::Option* admin = keygen->add_option(
      "--admin", command->admin_name,
      "Token of the admin port: writes its hash to --file, which must be new, or, with a NAME, appends it");
  admin->expected(0, 1);
  keygen->add_option("--scopes", command->scopes,
                     "What it is for: read, generate; of admin tokens read, control (both)");
  keygen->add_option("--file", command->file, "File of API keys, or of the admin token");
  return {keygen,
          [command, admin] {
            quire::SetUpLog(quire::LogLevel::kInfo);
            command->admin = admin->count() > 0;
            quire::CheckKeygen(*command);
          },
          [command] { return quire::RunKeygen(*command); }};
}

Subcommand AddCache(CLI::App& app) {
  const auto command = std::make_shared<quire::CacheCommand>();
  CLI::App* cache = app.add_subcommand(
      "cache", "List, verify, prune, export or import the blocks that servers keep in --kv-disk");
  cache->add_option("action", command->action, "ls, verify, prune, export or import")
      ->required()
      ->check(CLI::IsMember({"ls", "verify", "prune", "export", "import"}));
  cache->add_option("directory", command->directory, "The directory")->required();
  cache->add_option("archive", command->archive, "export, import: the file");
  cache->add_option("--size", command->gibibytes, "prune, import: GiB that all blocks may have then (import: 16)")
      ->check(CLI::NonNegativeNumber);
  cache->add_option("--days", command->days, "prune: days that an unused block may stay")->check(CLI::Range(0, 3650));
  cache->add_option("--model", command->model, "export, import: only this model (its path, or the path's last part)");
  cache->add_option("--pin", command->pin, "export: only the pinned prompt of this name");
  cache->add_option("--passphrase-file", command->passphrase_file,
                    "export, import: file (0600) with what seals the archive");
  cache->add_option("--secret-file", command->secret_file,
                    "export: instead, the file `secret` of the directory that will import the archive");
  return {cache, [command] { quire::CheckCache(*command); }, [command] { return quire::RunCache(*command); }};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == quire::kInPrivateNetwork) return quire::BecomeInPrivateNetwork(argv + 2);
  if (argc == 3 && std::string_view(argv[1]) == quire::kCompileGrammars)
    return quire::CompileGrammars(std::atoi(argv[2]));
  quire::ReportMappingErrors("quire");
  CLI::App app("Quire serves large language models from a paged KV cache over tensor-parallel workers.", "quire");
  app.require_subcommand(1);
  app.set_version_flag("--version,-V", fmt::format("quire {}", quire::kBuildVersion), "Print the version");
  std::vector<Subcommand> commands = {AddServe(app), AddCheck(app), quire::AddPlan(app), AddChat(app),
                                      AddBatch(app), AddTop(app),   AddWarm(app)};
  for (Subcommand& command : quire::AddBench(app)) commands.push_back(std::move(command));
  commands.push_back(AddExplain(app));
  commands.push_back(AddReplay(app));
  commands.push_back(AddKeygen(app));
  commands.push_back(AddCache(app));
  commands.push_back(AddPrinter(app, "explain-paging", "Walk through paging with twenty tokens", quire::ExplainPaging));
  commands.push_back(
      AddPrinter(app, "version", "Print the version", [] { return fmt::format("quire {}\n", quire::kBuildVersion); }));
  commands.push_back(AddCompletion(app));
  commands.push_back(AddPrinter(app, "manual", "Print the manual page (quire manual | man -l -)",
                                [&app] { return quire::ManualPage(app, quire::kBuildVersion); }));
  quire::AddExamples(app);
  std::vector<std::string> notes;
  if (const std::optional<int> status = quire::ParseCommandLine(app, argc, argv, notes)) return *status;
  const auto chosen = std::ranges::find_if(commands, [](const Subcommand& c) { return c.app->parsed(); });
  try {
    if (::sodium_init() < 0) quire::Fail("libsodium cannot be initialised");
    chosen->check();
    for (const std::string& note : notes) spdlog::warn("{}", quire::LinesWithoutControls(note));
  } catch (const quire::FetchError& error) {
    spdlog::error("{}", error.what());
    return quire::StatusOf(error);
  } catch (const quire::Error& error) {
    spdlog::error("{}", error.what());
    return quire::kSettingsStatus;
  }
  try {
    return chosen->run();
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return quire::StatusOf(error);
  }
}
