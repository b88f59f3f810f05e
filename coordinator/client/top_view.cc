#include "coordinator/client/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "comm/base/error.h"
#include "coordinator/log/log.h"

namespace quire {

namespace {

/// True when this byte begins a UTF-8 character.
bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

/// Returns the beginning of the text: as many whole UTF-8 characters as fit into `columns` columns.
std::string CutTo(const std::string& text, size_t columns) {
  size_t seen = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (BeginsCharacter(text[at]) && seen++ == columns) return text.substr(0, at);
  }
  return text;
}

/// Returns a table cell of exactly this width. Control characters are escaped.
std::string Cell(const std::string& text, size_t columns) {
  std::string cell = CutTo(WithoutControls(text), columns);
  cell.append(columns - static_cast<size_t>(std::ranges::count_if(cell, BeginsCharacter)), ' ');
  return cell;
}

std::string TextOr(const Json& value, const char* otherwise) {
  return value.is_string() ? value.get<std::string>() : otherwise;
}

std::string Bar(int64_t used, int64_t cached, int64_t total) {
  constexpr int64_t kCells = 30;
  if (total <= 0) return std::string(kCells, '.');
  const auto cells = [&](int64_t blocks) { return kCells * static_cast<double>(blocks) / static_cast<double>(total); };
  const auto held = static_cast<int64_t>(std::ceil(std::clamp(cells(used), 0.0, double{kCells})));
  const auto kept = static_cast<int64_t>(std::clamp(cells(cached), 0.0, static_cast<double>(kCells - held)));
  return std::string(static_cast<size_t>(held), '#') + std::string(static_cast<size_t>(kept), '+') +
         std::string(static_cast<size_t>(kCells - held - kept), '.');
}

/// Returns the growth per second of a counter in /admin/status; 0 if the counter has fallen.
double Rate(const TopReading& now, const TopReading& before, const char* counter) {
  const double more = now.status.at(counter).get<double>() - before.status.at(counter).get<double>();
  return std::max(0.0, more) / std::max(1e-3, now.seconds - before.seconds);  // negative after a restart of the server
}

void AddReplica(const Json& replica, bool one_of_several, std::vector<std::string>& lines) {
  const Json& device = replica.at("blocks").at("device");
  const Json& host = replica.at("blocks").at("host");
  const int64_t used = device.at("used"), cached = device.at("cached"), total = device.at("total");
  if (one_of_several) {
    lines.push_back(fmt::format("replica {}: {}, epoch {}, {} running, {} waiting", replica.at("replica").get<int>(),
                                WithoutControls(replica.at("state").get<std::string>()),
                                replica.at("epoch").get<int64_t>(), replica.at("running").get<int>(),
                                replica.at("waiting").get<int>()));
  }
  std::string blocks = fmt::format("blocks   [{}] {} used, {} cached, {} free of {}", Bar(used, cached, total), used,
                                   cached, device.at("free").get<int64_t>(), total);
  if (const int64_t places = host.at("total"); places > 0)
    blocks += fmt::format("; {} of {} on the host", host.at("used").get<int64_t>(), places);
  lines.push_back(blocks);
  lines.push_back(fmt::format("{:>4}  {}  {:>8}  {}  {:>9}  {:>12}", "RANK", Cell("HOST", 20), "PID", Cell("KIND", 12),
                              "STEP ms", "HEARD OF ms"));
  for (const Json& rank : replica.at("ranks")) {
    lines.push_back(fmt::format("{:>4}  {}  {:>8}  {}  {:>9.2f}  {:>12}", rank.at("rank").get<int>(),
                                Cell(TextOr(rank.at("host"), ""), 20), rank.at("pid").get<int64_t>(),
                                Cell(TextOr(rank.at("isa"), ""), 12), rank.at("last_step_micros").get<double>() / 1000,
                                rank.at("heartbeat_age_millis").get<int64_t>()));
  }
}

std::string Percent(int64_t part, int64_t whole) {
  return fmt::format("{:.0f} %", 100 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole)));
}

/// Returns the line about draft tokens; empty while there are no draft tokens. For each position the line shows the
/// share of all drafts with an accepted token at that position. So the shares fall from position to position.
std::string DraftsLine(const Json& status) {
  if (!status.contains("speculation")) return "";  // an older server
  const Json& speculation = status["speculation"];
  const int64_t tokens = speculation.at("tokens"), drafts = speculation.at("drafts");
  if (tokens == 0) return "";
  std::string line = fmt::format("drafts   {} of {} guessed tokens right", speculation.at("accepted").get<int64_t>(),
                                 tokens);
  for (const auto& [method, counts] : speculation.at("methods").items()) {
    const int64_t of_method = counts.at("tokens");
    if (of_method > 0)
      line += fmt::format(", {} {}", WithoutControls(method), Percent(counts.at("accepted"), of_method));
  }
  line += "; by position";
  for (const Json& accepted : speculation.at("accepted_by_position")) line += " " + Percent(accepted, drafts);
  return line;
}

std::string RequestLine(const Json& request) {
  return fmt::format("{}  {}  {:>8.1f}  {:>8}  {:>8}  {:>7}  {}  {}", Cell(request.at("id").get<std::string>(), 26),
                     Cell(request.at("state").get<std::string>(), 11), request.at("age_seconds").get<double>(),
                     request.at("prompt_tokens").get<int64_t>(), request.at("generated_tokens").get<int64_t>(),
                     request.at("blocks").get<int64_t>(), Cell(TextOr(request.at("client"), "-"), 16),
                     WithoutControls(TextOr(request.at("why_waiting"), "")));
}

bool Runs(const Json& request) {
  const std::string state = request.at("state");
  return state == "generating" || state == "prompt";
}

/// True when `a` is before `b` in the list.
bool Before(const Json& a, const Json& b, TopOrder order) {
  const auto more = [&](const char* field) { return a.at(field).get<double>() > b.at(field).get<double>(); };
  switch (order) {
    case TopOrder::kState:
      return Runs(a) && !Runs(b);
    case TopOrder::kAge:
      return more("age_seconds");
    case TopOrder::kPrompt:
      return more("prompt_tokens");
    case TopOrder::kOutput:
      return more("generated_tokens");
    case TopOrder::kBlocks:
      return more("blocks");
    case TopOrder::kClient:
      return TextOr(a.at("client"), "") < TextOr(b.at("client"), "");
  }
  return false;
}

/// Returns the requests in this order. Requests that are equal in this order stay in the server's order.
std::vector<const Json*> Sorted(const Json& requests, TopOrder order) {
  std::vector<const Json*> sorted;
  for (const Json& request : requests) sorted.push_back(&request);
  std::ranges::stable_sort(sorted, [&](const Json* a, const Json* b) { return Before(*a, *b, order); });
  return sorted;
}

/// Adds a line with the number of batches in each state, then a line for each listed batch that is not over, at most
/// kMostShown.
void AddBatches(const Json& numbers, const Json& list, std::vector<std::string>& lines) {
  constexpr size_t kMostShown = 5;
  std::string counts;
  for (const auto& [status, count] : numbers.at("batches").items()) {
    if (count.get<int64_t>() > 0) counts += fmt::format("{} {}, ", count.get<int64_t>(), WithoutControls(status));
  }
  const int running = numbers.at("running_requests");
  lines.push_back(fmt::format("batches  {}{} of their requests run", counts, running));
  size_t shown = 0;
  for (const Json& batch : list.at("batches")) {
    if (batch.at("over").get<bool>() || shown == kMostShown) break;
    if (shown++ == 0) {
      lines.push_back(fmt::format("{}  {}  {:>8}  {:>8}  {:>8}  {:>7}  {}  {}", Cell("BATCH", 30), Cell("STATE", 11),
                                  "DONE", "FAILED", "OF", "RUNNING", Cell("CLIENT", 16), "WHY IT WAITS"));
    }
    lines.push_back(fmt::format(
        "{}  {}  {:>8}  {:>8}  {:>8}  {:>7}  {}  {}", Cell(batch.at("id").get<std::string>(), 30),
        Cell(batch.at("status").get<std::string>(), 11), batch.at("completed").get<int64_t>(),
        batch.at("failed").get<int64_t>(), batch.at("total").get<int64_t>(), batch.at("running").get<int>(),
        Cell(TextOr(batch.at("client"), "-"), 16), WithoutControls(TextOr(batch.at("why_waiting"), ""))));
  }
}

/// Adds a line for each model, if there are several models or if the only model is not ready.
void AddModels(const Json& models, std::vector<std::string>& lines) {
  if (models.size() == 1 && models[0].at("state") == "ready") return;
  lines.push_back(fmt::format("{}  {}  {:>8}  {:>8}  {:>8}  {:>12}", Cell("MODEL", 26), Cell("STATE", 14), "RUNNING",
                              "WAITING", "MiB", "UNLOADS IN s"));
  for (const Json& model : models) {
    int64_t bytes = 0;
    for (const char* part : {"weight_bytes", "working_bytes", "kv_bytes"}) bytes += model.value(part, int64_t{0});
    const Json& left = model.at("unloads_in_seconds");
    lines.push_back(fmt::format(
        "{}  {}  {:>8}  {:>8}  {:>8}  {:>12}", Cell(model.at("name").get<std::string>(), 26),
                                Cell(model.at("state").get<std::string>(), 14), model.at("requests").get<int64_t>(),
                                model.at("waiting").get<int64_t>(), bytes >> 20,
                                left.is_number() ? fmt::format("{:.0f}", left.get<double>()) : "-"));
  }
}

/// Adds the state of the model's engine: requests, speed, drafts, blocks and ranks.
void AddEngine(const TopReading& now, const TopReading* before, std::vector<std::string>& lines) {
  const Json& status = now.status;
  lines.push_back(fmt::format("requests {} running, {} waiting, {} swapped out; {} preemptions so far",
                              status.at("running").get<int>(), status.at("waiting").get<int>(),
                              status.at("swapped_out").get<int>(), status.at("preemptions").get<int64_t>()));
  if (before != nullptr && !before->status.at("replicas").empty()) {
    lines.push_back(
        fmt::format("tokens/s {:.0f} generated, {:.0f} computed, {:.0f} taken from the cache; {:.0f} steps/s",
                    Rate(now, *before, "generated_tokens"), Rate(now, *before, "computed_tokens"),
                    Rate(now, *before, "cached_tokens"), Rate(now, *before, "steps")));
  } else {
    lines.emplace_back("tokens/s ...");
  }
  if (std::string drafts = DraftsLine(status); !drafts.empty()) lines.push_back(std::move(drafts));
  const Json& replicas = status.at("replicas");
  for (const Json& replica : replicas) AddReplica(replica, replicas.size() > 1, lines);
}

std::vector<std::string> Lines(const TopReading& now, const TopReading* before, const TopWindow& window) {
  const Json& status = now.status;
  const bool loaded = !status.at("replicas").empty();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("quire {}   {}   {}", WithoutControls(status.at("version").get<std::string>()),
                              WithoutControls(status.at("model").at("name").get<std::string>()),
                              WithoutControls(status.at("state").get<std::string>())));
  if (loaded)
    lines.back() += fmt::format("   epoch {}   {} recoveries", status.at("epoch").get<int64_t>(),
                                status.at("recoveries").get<int64_t>());
  if (loaded) AddEngine(now, before, lines);
  if (status.contains("models")) AddModels(status["models"], lines);
  if (!now.batches.is_null()) AddBatches(status.at("batches"), now.batches, lines);
  lines.emplace_back();
  lines.push_back(fmt::format("{}  {}  {:>8}  {:>8}  {:>8}  {:>7}  {}  {}", Cell("REQUEST", 26), Cell("STATE", 11),
                              "AGE s", "PROMPT", "OUTPUT", "BLOCKS", Cell("CLIENT", 16), "WHY IT WAITS"));
  const std::vector<const Json*> requests = Sorted(now.requests.at("requests"), window.order);
  for (size_t i = window.first_request; i < requests.size(); ++i) lines.push_back(RequestLine(*requests[i]));
  if (const int64_t more = now.requests.at("not_listed"); more > 0) lines.push_back(fmt::format("and {} more", more));
  return lines;
}

}  // namespace

std::vector<std::string> TopView(const TopReading& now, const TopReading* before, const TopWindow& window) {
  std::vector<std::string> lines;
  try {
    lines = Lines(now, before, window);
  } catch (const Json::exception& error) {
    Fail("this is not what the admin port of a Quire server says ({})", error.what());
  }
  if (lines.size() > window.height) lines.resize(window.height);
  for (std::string& line : lines) line = CutTo(line, window.width);
  return lines;
}

}  // namespace quire
