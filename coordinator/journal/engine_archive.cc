#include "coordinator/journal/engine_archive.h"

#include "comm/wire/messages.h"

namespace quire {

namespace {

// These functions list the members of structs that are not trivially copyable. Both saving and loading use the lists.

template <class Archive>
void TransferSampling(Archive& archive, SamplingSpec& s) {
  archive(s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.frequency_penalty, s.presence_penalty,
          s.seed, s.choice, s.num_logprobs, s.logit_bias, s.banned_until_min, s.min_tokens, s.grammar.kind,
          s.grammar.text, s.num_prompt_logprobs, s.allowed_tokens, s.bad_words, s.logprob_tokens, s.pooling,
          s.thoughts.tokens, s.thoughts.begun, s.thoughts.open, s.thoughts.close, s.second_text);
}

template <class Archive>
void TransferHead(Archive& archive, Request& r) {
  archive(r.id, r.name, r.client, r.client_limits, r.priority, r.arrival_seconds, r.background, r.limits.max_tokens,
          r.limits.stop_token_ids, r.limits.max_seconds, r.cache_salt, r.adapter, r.prediction);
  TransferSampling(archive, r.sampling);
}

template <class Archive>
void TransferProgress(Archive& archive, Request& r) {
  archive(r.forked, r.rank, r.num_preemptions, r.num_yields, r.admitted_step, r.num_lost_epochs, r.num_lost_alone,
          r.num_swapped_blocks, r.num_cached_tokens, r.num_scored, r.told_to_wait, r.first_scheduled_seconds,
          r.last_moved_seconds, r.set_aside, r.drafted);
}

template <class Archive>
void TransferSequence(Archive& archive, Sequence& s) {
  archive(s.id, s.choice, s.num_prompt_tokens, s.tokens, s.num_computed, s.num_in_flight, s.num_pending, s.blocks,
          s.first_block, s.told_first_block, s.host_blocks, s.slot, s.last_step, s.finished, s.contents.root,
          s.contents.adapter, s.contents.hashes, s.contents.last, s.contents.num_named, s.state, s.host_state, s.coming,
          s.latest_checkpoint, s.begun, s.shared_prefix, s.drafts, s.guess, s.guess_at, s.num_passed);
}

void SaveBeamOptions(ArchiveWriter& out, const Request& r) {
  out(r.beams != nullptr);
  if (r.beams != nullptr) out(r.beams->options());
}

void LoadBeamOptions(ArchiveReader& in, Request& r) {
  if (!in.Next<bool>()) return;
  const auto options = in.Next<BeamOptions>();
  r.beams = std::make_unique<BeamSearch>(options, r.limits.stop_token_ids, r.limits.max_tokens);
}

}  // namespace

void SaveSubmitted(ArchiveWriter& out, const Request& request) {
  TransferHead(out, const_cast<Request&>(request));
  const Sequence& first = request.sequences.front();
  out(first.tokens, static_cast<int>(request.sequences.size()));
  SaveBeamOptions(out, request);
}

std::unique_ptr<Request> LoadSubmitted(ArchiveReader& in) {
  auto request = std::make_unique<Request>();
  TransferHead(in, *request);
  const auto prompt = in.Next<std::vector<TokenId>>();
  const int n = in.Next<int>();
  if (prompt.empty() || n < 1 || n > 1 << 16) Fail("journal: a request of {} tokens and {} choices", prompt.size(), n);
  request->sequences = NewSequences(prompt, n);
  LoadBeamOptions(in, *request);
  return request;
}

void SaveMoving(ArchiveWriter& out, const Request& request) {
  auto& r = const_cast<Request&>(request);  // the writer only reads
  TransferHead(out, r);
  TransferProgress(out, r);
  out(r.sequences.size());
  for (Sequence& sequence : r.sequences) TransferSequence(out, sequence);
  SaveBeamOptions(out, r);
  if (r.beams != nullptr) out(*r.beams);
}

std::unique_ptr<Request> LoadMoving(ArchiveReader& in) {
  auto request = std::make_unique<Request>();
  TransferHead(in, *request);
  TransferProgress(in, *request);
  for (auto sequences = in.Next<size_t>(); sequences > 0; --sequences) {
    TransferSequence(in, request->sequences.emplace_back());
  }
  LoadBeamOptions(in, *request);
  if (request->beams != nullptr) in(*request->beams);
  return request;
}

// Saves sampled tokens. Pooled vectors influence no decision, so only their presence is saved.
void SaveTokens(ArchiveWriter& out, const std::vector<SampledToken>& tokens) {
  out(static_cast<uint32_t>(tokens.size()));
  for (const SampledToken& t : tokens) out(t.slot, t.token, t.logprob, t.top, !t.pooled.empty());
}

std::vector<SampledToken> LoadTokens(ArchiveReader& in) {
  std::vector<SampledToken> tokens;
  for (auto count = in.Next<uint32_t>(); count > 0; --count) {
    SampledToken& t = tokens.emplace_back();
    in(t.slot, t.token, t.logprob, t.top);
    if (in.Next<bool>()) t.pooled = {0};
  }
  return tokens;
}

template <class Archive>
void EngineArchive::TransferScalars(Archive& archive, Engine& engine) {
  Scheduler& s = engine.scheduler_;
  archive(engine.blocks_, s.cost_, s.company_left_, s.decisions_, s.running_, s.left_out_, s.drafting_, s.preemption_,
          s.num_steps_, s.queue_.num_left_, engine.stats_, engine.answers_, engine.epoch_, engine.step_,
          engine.next_sequence_id_);
  std::vector<int> adapters(engine.adapters_.begin(), engine.adapters_.end());
  archive(adapters);
  engine.adapters_ = {adapters.begin(), adapters.end()};
}

void EngineArchive::SaveQueue(ArchiveWriter& out, const Scheduler& scheduler) {
  const auto ids = [](const auto& requests) {
    std::vector<RequestId> list;
    for (const Request* request : requests) list.push_back(request->id);
    return list;
  };
  out(ids(scheduler.running()), scheduler.queue_.clients().size());
  for (const auto& [name, account] : scheduler.queue_.clients()) {
    out(name, account.active, account.served, account.prompt_tokens, account.generated_tokens, account.left,
        account.limits, account.reserve, ids(account.waiting), ids(account.preempted));
  }
}

Request* EngineArchive::Find(const Engine& engine, RequestId id) {
  const auto it = engine.requests_.find(id);
  if (it == engine.requests_.end()) Fail("journal: a snapshot names request {} and does not hold it", id);
  return it->second.get();
}

void EngineArchive::SaveSteps(ArchiveWriter& out, const OutstandingSteps& steps) {
  out(steps.size());
  for (int i = 0; i < steps.size(); ++i) {
    const OutstandingStep& step = steps.at(i);
    out(step.computing, step.num_moved_blocks, step.members.size());
    for (const StepMember& m : step.members) {
      out(m.slot, m.start, m.count, m.draws, m.scores, m.drafts, m.source, m.guess, m.slice, m.sequence != nullptr);
      if (m.sequence != nullptr) out(m.request->id, m.sequence->choice);
    }
  }
}

void EngineArchive::LoadSteps(ArchiveReader& in, Engine& engine) {
  const int count = in.Next<int>();
  OutstandingSteps& steps = engine.scheduler_.steps_;
  if (count < 0 || count > steps.most()) Fail("journal: a snapshot with {} outstanding steps", count);
  for (int i = 0; i < count; ++i) {
    OutstandingStep& step = steps.Restore();
    in(step.computing, step.num_moved_blocks);
    for (auto members = in.Next<size_t>(); members > 0; --members) {
      StepMember m{};
      in(m.slot, m.start, m.count, m.draws, m.scores, m.drafts, m.source, m.guess, m.slice);
      if (in.Next<bool>()) {
        m.request = Find(engine, in.Next<RequestId>());
        const auto choice = static_cast<size_t>(in.Next<int>());
        if (choice >= m.request->sequences.size()) Fail("journal: request {} has no choice {}", m.request->id, choice);
        m.sequence = &m.request->sequences[choice];
      }
      step.members.push_back(m);
    }
  }
}

void EngineArchive::LoadQueue(ArchiveReader& in, Engine& engine) {
  const auto find = [&](RequestId id) { return Find(engine, id); };
  const auto running = in.Next<std::vector<RequestId>>();
  std::vector<RequestId> preempted;
  WaitingQueue& queue = engine.scheduler_.queue_;
  for (auto count = in.Next<size_t>(); count > 0; --count) {
    const auto name = in.Next<std::string>();
    ClientAccount& account = queue.Restore(name, in.Next<int>());
    in(account.served, account.prompt_tokens, account.generated_tokens, account.left, account.limits, account.reserve);
    for (const RequestId id : in.Next<std::vector<RequestId>>()) queue.Restore(*find(id));
    for (const RequestId id : in.Next<std::vector<RequestId>>()) preempted.push_back(id);
  }
  for (auto& [id, request] : engine.requests_) {
    if (!request->set_aside) request->account = &queue.clients().at(request->client);
  }
  for (const RequestId id : running) engine.scheduler_.running_.Insert(*find(id));
  for (const RequestId id : preempted) queue.AddPreempted(*find(id));
}

void EngineArchive::Save(ArchiveWriter& out, const Engine& engine) {
  out(std::string(kBuildVersion), engine.options_);
  TransferScalars(out, const_cast<Engine&>(engine));
  out(engine.requests_.size());
  for (const auto& [id, request] : engine.requests_) SaveMoving(out, *request);
  SaveQueue(out, engine.scheduler_);
  SaveSteps(out, engine.scheduler_.steps_);
}

std::unique_ptr<Engine> EngineArchive::Load(ArchiveReader& in, const std::shared_ptr<RequestSink>& sink) {
  in.Next<std::string>();  // the version, checked by the reader of segments
  auto engine = std::make_unique<Engine>(in.Next<EngineOptions>());
  TransferScalars(in, *engine);
  engine->answers_.MakeIndex();
  for (auto count = in.Next<size_t>(); count > 0; --count) {
    std::unique_ptr<Request> request = LoadMoving(in);
    request->sink = sink;
    engine->RestoreDeadlines(*request);
    if (request->background) engine->background_.insert(request->id);
    engine->requests_[request->id] = std::move(request);
  }
  LoadQueue(in, *engine);
  LoadSteps(in, *engine);
  engine->scheduler().CheckIntegrity();
  return engine;
}

}  // namespace quire
