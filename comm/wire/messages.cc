#include "comm/wire/messages.h"

#include <flatbuffers/flatbuffers.h>
#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "comm/base/error.h"
#include "comm/base/share.h"
#include "comm/wire/plan_check.h"
#include "messages_generated.h"

namespace quire {

namespace {

namespace fb = flatbuffers;

constexpr size_t kMaxBodyBytes = 64 << 20;
constexpr size_t kMaxStringBytes = 4096;
constexpr size_t kMaxSlots = 65536;
constexpr size_t kMaxRuns = 65536;       // most runs of a block: two for each layer and head, at most
constexpr size_t kMaxGroupRanks = 1024;  // most ranks of a group; a topology allows no more

template <class Table>
const Table& Root(const Frame& frame) {
  // The Verifier checks alignment. A std::vector's memory is aligned for every scalar.
  fb::Verifier verifier(reinterpret_cast<const uint8_t*>(frame.body.data()), frame.body.size(), 8, 1'000'000);
  if (!verifier.VerifyBuffer<Table>(nullptr))
    Fail("frame of kind {}: broken body", static_cast<int>(frame.header.kind));
  return *fb::GetRoot<Table>(frame.body.data());
}

std::string Text(const fb::String* text) {
  if (text == nullptr) return {};
  if (text->size() > kMaxStringBytes) Fail("frame: a string of {} bytes", text->size());
  return text->str();
}

/// Copies the numbers as bytes: the Verifier guarantees only 4-byte alignment of vectors, and numbers may have 8
/// bytes.
template <class To>
std::vector<To> Numbers(const fb::Vector<To>* vector) {
  if (vector == nullptr || vector->size() == 0) return {};
  std::vector<To> numbers(vector->size());
  std::memcpy(numbers.data(), vector->Data(), numbers.size() * sizeof(To));
  return numbers;
}

Frame Finish(fb::FlatBufferBuilder& builder, FrameKind kind, EpochId epoch, StepId step) {
  Frame frame;
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  frame.body.assign(data, data + builder.GetSize());
  frame.header.kind = kind;
  frame.header.epoch = epoch;
  frame.header.step = step;
  frame.header.body_hash = HashBytes(frame.body);
  return frame;
}

fb::Offset<wire::Sampling> WriteSampling(fb::FlatBufferBuilder& b, const SamplingSpec& s) {
  std::vector<wire::LogitBias> bias;
  for (const auto& [token, value] : s.logit_bias) bias.emplace_back(token, value);
  const auto bias_offset = bias.empty() ? 0 : b.CreateVectorOfStructs(bias);
  const auto banned = s.banned_until_min.empty() ? 0 : b.CreateVector(s.banned_until_min);
  const auto grammar = s.grammar ? b.CreateString(s.grammar.text) : 0;
  const auto allowed = s.allowed_tokens.empty() ? 0 : b.CreateVector(s.allowed_tokens);
  std::vector<fb::Offset<wire::TokenList>> words;
  for (const auto& word : s.bad_words) words.push_back(wire::CreateTokenListDirect(b, &word));
  const auto bad_words = words.empty() ? 0 : b.CreateVector(words);
  const auto reported = s.logprob_tokens.empty() ? 0 : b.CreateVector(s.logprob_tokens);
  const auto open = s.thoughts.open.empty() ? 0 : b.CreateVector(s.thoughts.open);
  const auto close = s.thoughts.close.empty() ? 0 : b.CreateVector(s.thoughts.close);
  return wire::CreateSampling(b, s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.frequency_penalty,
                              s.presence_penalty, s.seed, s.choice, s.num_logprobs, s.min_tokens, bias_offset, banned,
                              s.grammar.kind, grammar, s.num_prompt_logprobs, allowed, bad_words, reported,
                              static_cast<uint8_t>(s.pooling), s.thoughts.tokens, s.thoughts.begun, open, close,
                              s.second_text);
}

GrammarSource ReadGrammar(uint8_t kind, const fb::String* text) {
  if (kind > GrammarSource::kStructuralTag) Fail("frame: a grammar of kind {}", kind);
  const size_t bytes = text == nullptr ? 0 : text->size();
  if (bytes > kMaxGrammarBytes) Fail("frame: a grammar of {} bytes", bytes);
  return {static_cast<GrammarSource::Kind>(kind), bytes == 0 ? "" : text->str()};
}

SamplingSpec ReadSampling(const wire::Sampling* s) {
  if (s == nullptr) Fail("plan: an added sequence without sampling");
  if (s->pooling() > static_cast<uint8_t>(Pooling::kColbert)) Fail("plan: pooling of kind {}", s->pooling());
  SamplingSpec spec{s->temperature(),
                    s->top_k(),
                    s->top_p(),
                    s->min_p(),
                    s->repetition_penalty(),
                    s->frequency_penalty(),
                    s->presence_penalty(),
                    s->seed(),
                    s->choice(),
                    s->num_logprobs(),
                    s->num_prompt_logprobs(),
                    {},
                    Numbers<TokenId>(s->banned_until_min()),
                    s->min_tokens(),
                    ReadGrammar(s->grammar_kind(), s->grammar()),
                    Numbers<TokenId>(s->allowed_tokens()),
                    {},
                    Numbers<TokenId>(s->logprob_tokens()),
                    static_cast<Pooling>(s->pooling()),
                    {s->thought_limit(), s->thoughts_begun(), Numbers<TokenId>(s->thoughts_open()),
                     Numbers<TokenId>(s->thoughts_close())},
                    s->second_text()};
  if (s->bad_words() != nullptr) {
    for (const auto* word : *s->bad_words()) spec.bad_words.push_back(Numbers<TokenId>(word->tokens()));
  }
  if (s->logit_bias() != nullptr) {
    for (const auto* entry : *s->logit_bias()) spec.logit_bias.emplace_back(entry->token(), entry->bias());
  }
  return spec;
}

std::vector<uint8_t> SlotBitmap(const std::vector<SlotId>& slots) {
  std::vector<uint8_t> bitmap;
  for (const SlotId slot : slots) {
    if (bitmap.size() <= slot / 8) bitmap.resize(slot / 8 + 1);
    bitmap[slot / 8] = static_cast<uint8_t>(bitmap[slot / 8] | 1u << slot % 8);
  }
  return bitmap;
}

std::vector<SlotId> SlotsOf(const fb::Vector<uint8_t>* bitmap) {
  std::vector<SlotId> slots;
  if (bitmap == nullptr) return slots;
  if (bitmap->size() > kMaxSlots / 8) Fail("plan: a bitmap of {} slots", bitmap->size() * 8);
  for (SlotId slot = 0; slot < bitmap->size() * 8; ++slot) {
    if (bitmap->Get(slot / 8) >> slot % 8 & 1) slots.push_back(slot);
  }
  return slots;
}

std::vector<BlockCopyPair> Pairs(const fb::Vector<const wire::BlockCopy*>* vector) {
  std::vector<BlockCopyPair> pairs;
  if (vector == nullptr) return pairs;
  for (const auto* c : *vector) pairs.push_back({c->source(), c->destination()});
  return pairs;
}

/// Copies `items` into a vector of wire structs. Returns 0, which writes no field, when there are no items.
template <class Wire, class Item, class Make>
fb::Offset<fb::Vector<const Wire*>> Structs(fb::FlatBufferBuilder& b, const std::vector<Item>& items, Make make) {
  if (items.empty()) return 0;
  return b.CreateVectorOfStructs<Wire>(items.size(), [&](size_t i, Wire* out) { *out = make(items[i]); });
}

/// Writes the drafts of a plan, or the draft model's drafts of a result. Returns 0, which writes no field, when there
/// are none.
fb::Offset<fb::Vector<fb::Offset<wire::Draft>>> Drafts(fb::FlatBufferBuilder& b, const std::vector<Draft>& drafts) {
  if (drafts.empty()) return 0;
  std::vector<fb::Offset<wire::Draft>> written;
  for (const Draft& d : drafts) written.push_back(wire::CreateDraftDirect(b, d.slot, &d.tokens));
  return b.CreateVector(written);
}

/// Limits the decoded size of a message. The parts of a hostile body may overlap, so that a small body decodes to a
/// large message. The parts of an honest message together have no more bytes than its body.
class UnfoldedBytes {
 public:
  explicit UnfoldedBytes(const Frame& frame) : left_(frame.body.size()) {}
  template <class Item>
  void Take(const fb::Vector<Item>* vector) {
    const size_t bytes = vector == nullptr ? 0 : vector->size() * fb::IndirectHelper<Item>::element_stride;
    if (bytes > left_) Fail("frame: the message is larger than its body");
    left_ -= bytes;
  }

 private:
  size_t left_;
};

void TakeLists(const wire::Sampling& sampling, UnfoldedBytes& unfolded) {
  unfolded.Take(sampling.logit_bias());
  unfolded.Take(sampling.banned_until_min());
  unfolded.Take(sampling.grammar());
  unfolded.Take(sampling.allowed_tokens());
  unfolded.Take(sampling.logprob_tokens());
  unfolded.Take(sampling.thoughts_open());
  unfolded.Take(sampling.thoughts_close());
  unfolded.Take(sampling.bad_words());
  if (sampling.bad_words() == nullptr) return;
  for (const auto* word : *sampling.bad_words()) unfolded.Take(word->tokens());
}

StepPlan ReadPlan(const Frame& frame) {
  const auto& wire_plan = Root<wire::Plan>(frame);
  UnfoldedBytes unfolded(frame);
  StepPlan plan;
  plan.epoch = frame.header.epoch;
  plan.step = frame.header.step;
  plan.released = Numbers<SlotId>(wire_plan.released());
  if (wire_plan.added() != nullptr) {
    if (wire_plan.added()->size() > kMaxSlots) Fail("plan: {} sequences are added", wire_plan.added()->size());
    for (const auto* a : *wire_plan.added()) {
      unfolded.Take(a->tokens());
      unfolded.Take(a->blocks());
      unfolded.Take(a->state());
      if (a->sampling() != nullptr) TakeLists(*a->sampling(), unfolded);
      plan.added.push_back({a->slot(), a->num_prompt_tokens(), a->num_computed(), Numbers<TokenId>(a->tokens()),
                            Numbers<BlockId>(a->blocks()), ReadSampling(a->sampling()), a->num_scored(),
                            Numbers<BlockId>(a->state()), a->adapter()});
    }
  }
  if (wire_plan.tables() != nullptr) {
    for (const auto* t : *wire_plan.tables()) {
      plan.tables.push_back({t->slot(), t->index(), t->block()});
    }
  }
  if (wire_plan.states() != nullptr) {
    if (wire_plan.states()->size() > kMaxSlots) Fail("plan: {} states", wire_plan.states()->size());
    for (const auto* s : *wire_plan.states()) {
      unfolded.Take(s->blocks());
      plan.states.push_back({s->slot(), Numbers<BlockId>(s->blocks())});
    }
  }
  if (wire_plan.branches() != nullptr) {
    for (const auto* c : *wire_plan.branches()) plan.branches.push_back({c->slot(), c->parent(), c->token()});
  }
  plan.swap_outs = Pairs(wire_plan.swap_outs());
  plan.swap_ins = Pairs(wire_plan.swap_ins());
  plan.copies = Pairs(wire_plan.copies());
  plan.decodes = SlotsOf(wire_plan.decodes());
  if (wire_plan.drafts() != nullptr) {
    if (wire_plan.drafts()->size() > kMaxSlots) Fail("plan: {} drafts", wire_plan.drafts()->size());
    for (const auto* d : *wire_plan.drafts()) {
      unfolded.Take(d->tokens());
      plan.drafts.push_back({d->slot(), Numbers<TokenId>(d->tokens())});
    }
  }
  if (wire_plan.chunks() != nullptr) {
    for (const auto* c : *wire_plan.chunks()) plan.chunks.push_back({c->slot(), c->start(), c->count()});
  }
  if (wire_plan.guesses() != nullptr) {
    for (const auto* g : *wire_plan.guesses()) plan.guesses.push_back({g->slot(), g->count()});
  }
  if (wire_plan.slices() != nullptr) {
    for (const auto* s : *wire_plan.slices())
      plan.slices.push_back({s->slot(), s->begin(), s->count(), s->tokens(), s->stages()});
  }
  plan.position_sum = wire_plan.position_sum();
  return plan;
}

Vocabulary ReadVocabulary(const wire::Vocabulary& m) {
  Vocabulary vocabulary{{}, Numbers<TokenId>(m.stop_tokens())};
  size_t begin = 0;
  const size_t end = m.bytes() == nullptr ? 0 : m.bytes()->size();
  if (m.lengths() == nullptr) return vocabulary;
  for (const uint16_t length : *m.lengths()) {
    if (length > end - begin) Fail("vocabulary: its tokens are longer than their {} bytes", end);
    const auto* bytes = reinterpret_cast<const char*>(m.bytes()->data()) + begin;
    vocabulary.bytes.emplace_back(bytes, length);
    begin += length;
  }
  if (begin != end) Fail("vocabulary: {} bytes are of no token", end - begin);
  for (const TokenId token : vocabulary.stop_tokens) {
    if (token < 0) Fail("vocabulary: token {}", token);
  }
  return vocabulary;
}

PromptScores ReadScores(const wire::Scored& s, UnfoldedBytes& unfolded) {
  unfolded.Take(s.logprobs());
  unfolded.Take(s.ranks());
  unfolded.Take(s.top());
  PromptScores scores{s.slot(), s.start(), s.num_top(), Numbers<float>(s.logprobs()), Numbers<int32_t>(s.ranks()), {}};
  if (s.top() != nullptr) {
    for (const auto* entry : *s.top()) scores.top.emplace_back(entry->token(), entry->logprob());
  }
  const size_t count = scores.count();
  if (scores.num_top < 0 || scores.ranks.size() != count ||
      scores.top.size() != count * static_cast<size_t>(scores.num_top)) {
    Fail("result: slot {}: {} scores with {} ranks and {} alternatives, {} each", scores.slot, count,
         scores.ranks.size(), scores.top.size(), scores.num_top);
  }
  return scores;
}

StepResult ReadResult(const Frame& frame) {
  const auto& r = Root<wire::Result>(frame);
  StepResult result{frame.header.epoch,
                    frame.header.step,
                    r.rank(),
                    r.plan_hash(),
                    r.token_hash(),
                    r.compute_micros(),
                    r.swap_micros(),
                    {},
                    {}};
  UnfoldedBytes unfolded(frame);
  if (r.tokens() != nullptr) {
    if (r.tokens()->size() > kMaxSlots) Fail("result: {} tokens", r.tokens()->size());
    for (const auto* t : *r.tokens()) {
      unfolded.Take(t->top());
      unfolded.Take(t->pooled());
      SampledToken token{t->slot(), t->token(), t->logprob(), {}, Numbers<float>(t->pooled())};
      if (t->top() != nullptr) {
        for (const auto* entry : *t->top()) token.top.emplace_back(entry->token(), entry->logprob());
      }
      result.tokens.push_back(std::move(token));
    }
  }
  if (r.scores() != nullptr) {
    if (r.scores()->size() > kMaxSlots) Fail("result: {} prompts are scored", r.scores()->size());
    for (const auto* s : *r.scores()) result.scores.push_back(ReadScores(*s, unfolded));
  }
  result.guess_micros = r.guess_micros();
  if (r.guesses() != nullptr) {
    if (r.guesses()->size() > kMaxSlots) Fail("result: {} guesses", r.guesses()->size());
    for (const auto* g : *r.guesses()) {
      unfolded.Take(g->tokens());
      result.guesses.push_back({g->slot(), Numbers<TokenId>(g->tokens())});
    }
  }
  return result;
}

/// Writes the body of a message. Each overload writes one type of message and returns its frame kind.
struct HandshakeWriter {
  fb::FlatBufferBuilder& b;

  FrameKind operator()(const JoinMessage& m) const {
    b.Finish(wire::CreateJoinDirect(b, m.build.c_str(), m.host.c_str(), m.pid, m.rank, m.world_size, m.devices,
                                    m.device_problem.c_str(), m.processors, m.memory_bytes, m.memory_limit.c_str()));
    return FrameKind::kJoin;
  }
  FrameKind operator()(const AssignMessage& m) const {
    const auto text = [this](std::string_view s) { return b.CreateString(s.data(), s.size()); };
    const auto model_path = text(m.model_path), fingerprint = text(m.fingerprint);
    const auto shares = b.CreateVector(m.shares);
    const auto devices = b.CreateVector(m.devices);
    const ComputeSettings& compute = m.compute;
    const auto backend = text(NameOf(compute.backend)), dtype = text(NameOf(compute.dtype));
    const auto kv_cache_dtype = text(NameOf(compute.kv_cache_dtype));
    const auto quantization = text(NameOf(compute.quantization)), activations = text(NameOf(compute.activations));
    const auto attention_backend = text(NameOf(compute.attention_backend)), load_format = text(NameOf(m.load_format));
    const auto adapters = b.CreateVectorOfStrings(m.adapters);
    const auto stage_layers = b.CreateVector(m.stage_layers);
    const auto draft_path = text(m.draft.path), draft_fingerprint = text(m.draft.fingerprint);
    wire::AssignBuilder assign(b);
    assign.add_model_path(model_path);
    assign.add_fingerprint(fingerprint);
    assign.add_ctrl_port(m.ctrl_port);
    assign.add_block_size(m.block_size);
    assign.add_max_step_tokens(m.max_step_tokens);
    assign.add_max_running(m.max_running);
    assign.add_max_model_len(m.max_model_len);
    assign.add_threads(m.threads);
    assign.add_shares(shares);
    assign.add_backend(backend);
    assign.add_dtype(dtype);
    assign.add_kv_cache_dtype(kv_cache_dtype);
    assign.add_devices(devices);
    assign.add_quantization(quantization);
    assign.add_activations(activations);
    assign.add_attention_backend(attention_backend);
    assign.add_load_format(load_format);
    assign.add_adapters(adapters);
    assign.add_stage_layers(stage_layers);
    assign.add_expert_parallel(compute.expert_parallel);
    assign.add_draft_path(draft_path);
    assign.add_draft_fingerprint(draft_fingerprint);
    assign.add_draft_tokens(m.draft.num_tokens);
    assign.add_draft_sequences(m.draft.max_sequences);
    assign.add_draft_model_len(m.draft.max_model_len);
    assign.add_draft_rows(m.draft_rows);
    assign.add_draft_predicts(m.draft.predicts);
    b.Finish(assign.Finish());
    return FrameKind::kAssign;
  }
  FrameKind operator()(const HelloMessage& m) const {
    b.Finish(wire::CreateHelloDirect(b, m.fingerprint.c_str(), m.isa.c_str(), m.bytes_per_block, m.weight_bytes,
                                     m.available_bytes, m.load_millis, m.bytes_per_state, m.whole_block.bytes,
                                     &m.whole_block.given, &m.whole_block.taken, m.whole_state.bytes,
                                     &m.whole_state.given, &m.whole_state.taken, m.working.process_bytes,
                                     m.working.step_bytes, m.working.file_bytes));
    return FrameKind::kHello;
  }
  FrameKind operator()(const StartMessage& m) const {
    b.Finish(wire::CreateStart(b, m.num_blocks, m.num_host_blocks, m.state_blocks, m.grammars.compiled,
                               m.grammars.cached, m.grammars.answers));
    return FrameKind::kStart;
  }
  FrameKind operator()(const ReadyMessage& m) const {
    b.Finish(wire::CreateReady(b, m.num_blocks, m.num_host_blocks, m.swap_nanos_per_block, m.state_blocks));
    return FrameKind::kReady;
  }
  FrameKind operator()(const FailureMessage& m) const {
    b.Finish(
        wire::CreateFailureDirect(b, m.phase.c_str(), m.message.substr(0, kMaxStringBytes).c_str(), m.by_settings));
    return FrameKind::kFailure;
  }
  FrameKind operator()(const BeatMessage& m) const {
    b.Finish(wire::CreateBeat(b, m.begun, m.answered, m.late_micros, m.starved_micros));
    return FrameKind::kBeat;
  }
  FrameKind operator()(const ShutdownMessage& m) const {
    b.Finish(wire::CreateShutdownDirect(b, m.reason.c_str()));
    return FrameKind::kShutdown;
  }
  FrameKind operator()(const TakeBlocksMessage& m) const {
    const auto endpoint = b.CreateString(m.endpoint);
    const auto ports = b.CreateVector(m.ports);
    const auto keys = b.CreateVectorOfStrings(m.keys);
    const auto shares = b.CreateVector(m.shares);
    const auto stage_layers = b.CreateVector(m.stage_layers);
    b.Finish(wire::CreateTakeBlocks(b, m.ticket, endpoint, ports, keys, shares, b.CreateVector(m.blocks), m.on_device,
                                    stage_layers, m.is_state));
    return FrameKind::kTakeBlocks;
  }
  FrameKind operator()(const GiveBlocksMessage& m) const {
    const auto endpoints = b.CreateVectorOfStrings(m.endpoints);
    const auto keys = b.CreateVectorOfStrings(m.keys);
    const auto shares = b.CreateVector(m.shares);
    const auto moves =
        Structs<wire::BlockCopy>(b, m.moves, [](auto& c) { return wire::BlockCopy(c.source, c.destination); });
    const auto blocks = b.CreateVector(m.blocks), stage_layers = b.CreateVector(m.stage_layers);
    b.Finish(wire::CreateGiveBlocks(b, m.ticket, m.epoch, endpoints, keys, shares, moves, blocks, m.on_device,
                                    stage_layers, m.is_state));
    return FrameKind::kGiveBlocks;
  }
  FrameKind operator()(const FreeBlocksMessage& m) const {
    const auto device = b.CreateVector(m.device_runs), host = b.CreateVector(m.host_runs);
    b.Finish(wire::CreateFreeBlocks(b, device, host));
    return FrameKind::kFreeBlocks;
  }
  FrameKind operator()(const StopBlocksMessage& m) const {
    b.Finish(wire::CreateStopBlocks(b, m.ticket));
    return FrameKind::kStopBlocks;
  }
  FrameKind operator()(const BlocksReport& m) const {
    b.Finish(wire::CreateBlocksReportDirect(b, m.ticket, m.state, m.endpoint.c_str(),
                                            m.problem.substr(0, kMaxStringBytes).c_str(), m.bytes));
    return FrameKind::kBlocksReport;
  }
  FrameKind operator()(const Vocabulary& m) const {
    std::vector<uint16_t> lengths;
    std::vector<uint8_t> bytes;
    for (const std::string& token : m.bytes) {
      QUIRE_CHECK(token.size() <= kMaxTokenBytes, "a token of {} bytes", token.size());
      lengths.push_back(static_cast<uint16_t>(token.size()));
      bytes.insert(bytes.end(), token.begin(), token.end());
    }
    b.Finish(wire::CreateVocabularyDirect(b, &lengths, &bytes, &m.stop_tokens));
    return FrameKind::kVocabulary;
  }
  FrameKind operator()(const GrammarMessage& m) const {
    const auto text = b.CreateString(m.source.text);
    b.Finish(wire::CreateGrammar(b, m.ticket, m.source.kind, text));
    return FrameKind::kGrammar;
  }
  FrameKind operator()(const GrammarReady& m) const {
    b.Finish(wire::CreateGrammarReadyDirect(b, m.ticket, m.problem.substr(0, kMaxStringBytes).c_str(), m.bytes));
    return FrameKind::kGrammarReady;
  }
  FrameKind operator()(const AdapterMessage& m) const {
    b.Finish(wire::CreateAdapterDirect(b, m.ticket, m.number, m.path.c_str(), m.fingerprint.c_str(), m.file_bytes));
    return FrameKind::kAdapter;
  }
  FrameKind operator()(const AdapterReady& m) const {
    b.Finish(wire::CreateAdapterReadyDirect(b, m.ticket, m.problem.substr(0, kMaxStringBytes).c_str(), m.bytes));
    return FrameKind::kAdapterReady;
  }
  FrameKind operator()(const StepPlan& plan) const {
    std::vector<fb::Offset<wire::Added>> added;
    for (const auto& a : plan.added) {
      const auto sampling = WriteSampling(b, a.sampling);
      added.push_back(wire::CreateAddedDirect(b, a.slot, a.num_prompt_tokens, a.num_computed, &a.tokens, &a.blocks,
                                              sampling, a.num_scored, a.state.empty() ? nullptr : &a.state, a.adapter));
    }
    const auto copies = [&](const std::vector<BlockCopyPair>& pairs) {
      return Structs<wire::BlockCopy>(b, pairs, [](auto& c) { return wire::BlockCopy(c.source, c.destination); });
    };
    const auto released = plan.released.empty() ? 0 : b.CreateVector(plan.released);
    const auto added_offset = added.empty() ? 0 : b.CreateVector(added);
    const auto branches =
        Structs<wire::Branch>(b, plan.branches, [](auto& c) { return wire::Branch(c.slot, c.parent, c.token); });
    const auto tables =
        Structs<wire::TableEdit>(b, plan.tables, [](auto& t) { return wire::TableEdit(t.slot, t.index, t.block); });
    std::vector<fb::Offset<wire::StateTable>> states;
    for (const StateTable& s : plan.states) states.push_back(wire::CreateStateTableDirect(b, s.slot, &s.blocks));
    const auto states_offset = states.empty() ? 0 : b.CreateVector(states);
    const auto drafts_offset = Drafts(b, plan.drafts);
    const auto guesses =
        Structs<wire::GuessOrder>(b, plan.guesses, [](auto& g) { return wire::GuessOrder(g.slot, g.count); });
    const auto swap_outs = copies(plan.swap_outs), swap_ins = copies(plan.swap_ins), inside = copies(plan.copies);
    const auto decodes = b.CreateVector(SlotBitmap(plan.decodes));
    const auto chunks =
        Structs<wire::Chunk>(b, plan.chunks, [](auto& c) { return wire::Chunk(c.slot, c.start, c.count); });
    const auto slices = Structs<wire::Slice>(
        b, plan.slices, [](auto& s) { return wire::Slice(s.slot, s.begin, s.count, s.tokens, s.stages); });
    b.Finish(wire::CreatePlan(b, released, added_offset, branches, tables, swap_outs, swap_ins, inside, decodes, chunks,
                              plan.position_sum, states_offset, drafts_offset, guesses, slices));
    return FrameKind::kPlan;
  }
  FrameKind operator()(const StepResult& result) const {
    std::vector<fb::Offset<wire::Sampled>> tokens;
    for (const auto& t : result.tokens) {
      std::vector<wire::TokenLogprob> top;
      for (const auto& [token, logprob] : t.top) top.emplace_back(token, logprob);
      tokens.push_back(wire::CreateSampledDirect(b, t.slot, t.token, t.logprob, top.empty() ? nullptr : &top,
                                                 t.pooled.empty() ? nullptr : &t.pooled));
    }
    std::vector<fb::Offset<wire::Scored>> scores;
    for (const PromptScores& s : result.scores) {
      std::vector<wire::TokenLogprob> top;
      for (const auto& [token, logprob] : s.top) top.emplace_back(token, logprob);
      scores.push_back(wire::CreateScoredDirect(b, s.slot, s.start, s.num_top, &s.logprobs, &s.ranks, &top));
    }
    const auto guesses = Drafts(b, result.guesses);
    const auto tokens_offset = b.CreateVector(tokens);
    const auto scores_offset = scores.empty() ? 0 : b.CreateVector(scores);
    b.Finish(wire::CreateResult(b, result.rank, result.plan_hash, result.token_hash, result.compute_micros,
                                result.swap_micros, tokens_offset, scores_offset, guesses, result.guess_micros));
    return FrameKind::kResult;
  }
};

void CheckHeader(const Frame& frame) {
  const FrameHeader& h = frame.header;
  if (h.magic != FrameHeader{}.magic) Fail("frame: not a Quire frame");
  if (h.version != kProtocolVersion) {
    Fail("frame: protocol version {}, this program speaks {}; install the same version everywhere", h.version,
         kProtocolVersion);
  }
  if (frame.body.size() > kMaxBodyBytes) Fail("frame: body of {} bytes", frame.body.size());
  if (HashBytes(frame.body) != h.body_hash) Fail("frame: body does not match its hash");
}

GrammarMessage ReadGrammarMessage(const wire::Grammar& m) { return {m.ticket(), ReadGrammar(m.kind(), m.text())}; }
GrammarReady ReadGrammarReady(const wire::GrammarReady& m) { return {m.ticket(), Text(m.problem()), m.bytes()}; }

AdapterMessage ReadAdapterMessage(const wire::Adapter& m) {
  AdapterMessage message{m.ticket(), m.number(), Text(m.path()), Text(m.fingerprint()), m.file_bytes()};
  if (!message.path.empty() && m.number() <= kMostListedAdapters)
    Fail("frame: adapter {} comes while serving; such adapters have numbers above {}", m.number(), kMostListedAdapters);
  return message;
}
AdapterReady ReadAdapterReady(const wire::AdapterReady& m) { return {m.ticket(), Text(m.problem()), m.bytes()}; }

std::vector<std::string> Texts(const fb::Vector<fb::Offset<fb::String>>* vector) {
  std::vector<std::string> texts;
  if (vector == nullptr) return texts;
  if (vector->size() > kMaxGroupRanks) Fail("frame: {} texts", vector->size());
  for (const fb::String* text : *vector) texts.push_back(Text(text));
  return texts;
}

/// Reads how a group divides a model. The message has the fields `shares` and `stage_layers`.
template <class Table>
GroupCut ReadCut(const Table& m) {
  GroupCut cut{Numbers<double>(m.shares()), Numbers<int32_t>(m.stage_layers())};
  const bool valid = std::ranges::all_of(cut.shares, IsShare) &&
                     std::ranges::all_of(cut.stage_layers, [](int32_t layers) { return layers > 0; });
  const size_t stages = std::max<size_t>(1, cut.stage_layers.size());
  if (cut.shares.empty() || cut.shares.size() > kMaxGroupRanks || stages > kMaxGroupRanks / cut.shares.size() || !valid)
    Fail("frame: shares of {} ranks in each of {} stages", cut.shares.size(), stages);
  return cut;
}

/// Reads runs of bytes within `whole_bytes` bytes, each as its beginning and its length.
std::vector<int64_t> Runs(const fb::Vector<int64_t>* vector, int64_t whole_bytes) {
  std::vector<int64_t> runs = Numbers<int64_t>(vector);
  bool valid = runs.size() % 2 == 0 && runs.size() <= 2 * kMaxRuns;
  for (size_t i = 0; valid && i < runs.size(); i += 2) {
    const int64_t at = runs[i], bytes = runs[i + 1];
    valid = at >= 0 && bytes > 0 && at <= whole_bytes && bytes <= whole_bytes - at;
  }
  if (!valid) Fail("frame: {} numbers of runs that do not lie in {} bytes", runs.size(), whole_bytes);
  return runs;
}

StartMessage ReadStart(const wire::Start& m) {
  return {m.num_blocks(),
          m.num_host_blocks(),
          m.state_blocks(),
          {.compiled = m.compiled_grammar_bytes(),
           .cached = m.cached_grammar_bytes(),
           .answers = m.answer_grammar_bytes()}};
}

WholePart ReadPart(int64_t bytes, const fb::Vector<int64_t>* given, const fb::Vector<int64_t>* taken) {
  return {bytes, Runs(given, bytes), Runs(taken, bytes)};
}

void CheckPorts(const std::vector<int32_t>& ports) {
  if (ports.empty()) return;
  if (ports.size() != 2 || ports[0] < 1 || ports[0] > ports[1] || ports[1] > 65535)
    Fail("frame: ports {}", fmt::join(ports, " to "));
}

/// Reads runs of blocks, each as its first block and its count. The runs must be in order and must not overlap.
std::vector<BlockId> BlockRunsOf(const fb::Vector<BlockId>* vector) {
  std::vector<BlockId> runs = Numbers<BlockId>(vector);
  int64_t end = 1;  // the null block is never freed
  bool valid = runs.size() % 2 == 0;
  for (size_t i = 0; valid && i < runs.size(); i += 2) {
    valid = runs[i] >= end && runs[i + 1] > 0;
    end = int64_t{runs[i]} + runs[i + 1];
  }
  if (!valid || end > INT32_MAX) Fail("frame: {} numbers that are no runs of blocks", runs.size());
  return runs;
}

/// Decodes the messages about KV block transfers.
Message ReadBlocksMessage(const Frame& frame) {
  if (frame.header.kind == FrameKind::kTakeBlocks) {
    const auto& m = Root<wire::TakeBlocks>(frame);
    GroupCut cut = ReadCut(m);
    TakeBlocksMessage take{m.ticket(),
                           Text(m.endpoint()),
                           Numbers<int32_t>(m.ports()),
                           Texts(m.keys()),
                           std::move(cut.shares),
                           std::move(cut.stage_layers),
                           Numbers<BlockId>(m.blocks()),
                           m.on_device(),
                           m.is_state()};
    CheckPorts(take.ports);
    if (take.endpoint.empty() && take.ports.empty()) Fail("frame: blocks are to be taken nowhere");
    return take;
  }
  if (frame.header.kind == FrameKind::kGiveBlocks) {
    const auto& m = Root<wire::GiveBlocks>(frame);
    GroupCut cut = ReadCut(m);
    const auto ranks = static_cast<size_t>(cut.num_ranks());
    GiveBlocksMessage give{m.ticket(),
                           m.epoch(),
                           Texts(m.endpoints()),
                           Texts(m.keys()),
                           std::move(cut.shares),
                           std::move(cut.stage_layers),
                           Pairs(m.moves()),
                           Numbers<BlockId>(m.blocks()),
                           m.on_device(),
                           m.is_state()};
    const bool fits = give.endpoints.size() == ranks;
    if (!fits || (!give.keys.empty() && give.keys.size() < give.endpoints.size()))
      Fail("frame: {} endpoints and {} keys of {} ranks", give.endpoints.size(), give.keys.size(), ranks);
    return give;
  }
  if (frame.header.kind == FrameKind::kFreeBlocks) {
    const auto& m = Root<wire::FreeBlocks>(frame);
    return FreeBlocksMessage{BlockRunsOf(m.device_runs()), BlockRunsOf(m.host_runs())};
  }
  if (frame.header.kind == FrameKind::kStopBlocks) return StopBlocksMessage{Root<wire::StopBlocks>(frame).ticket()};
  const auto& m = Root<wire::BlocksReport>(frame);
  if (m.state() < BlocksReport::kReady || m.state() > BlocksReport::kFailed)
    Fail("frame: blocks in state {}", m.state());
  return BlocksReport{.ticket = m.ticket(),
                      .state = static_cast<BlocksReport::State>(m.state()),
                      .endpoint = Text(m.endpoint()),
                      .problem = Text(m.problem()),
                      .bytes = m.bytes()};
}

/// Reads a value of E from its spelling. Throws Error for any other word.
template <class E>
E ReadChoice(const fb::String* text, const char* what) {
  const auto value = Named<E>(Text(text));
  if (!value) Fail("assignment: {} \"{}\" is none of {}", what, Text(text), fmt::join(NamesOf<E>(), ", "));
  return *value;
}

JoinMessage ReadJoin(const wire::Join& m) {
  return {.build = Text(m.build()),
          .host = Text(m.host()),
          .pid = m.pid(),
          .rank = m.rank(),
          .world_size = m.world_size(),
          .devices = m.devices(),
          .device_problem = Text(m.device_problem()),
          .processors = m.processors(),
          .memory_bytes = m.memory_bytes(),
          .memory_limit = Text(m.memory_limit())};
}

AssignMessage ReadAssign(const wire::Assign& m) {
  const ComputeSettings compute = {
      .backend = ReadChoice<BackendKind>(m.backend(), "backend"),
      .dtype = ReadChoice<ModelDtype>(m.dtype(), "dtype"),
      .kv_cache_dtype = ReadChoice<KvCacheDtype>(m.kv_cache_dtype(), "kv_cache_dtype"),
      .quantization = ReadChoice<Quantization>(m.quantization(), "quantization"),
      .activations = ReadChoice<ActivationType>(m.activations(), "activations"),
      .attention_backend = ReadChoice<AttentionBackend>(m.attention_backend(), "attention_backend"),
      .expert_parallel = m.expert_parallel(),
  };
  if (compute.backend == BackendKind::kAuto || compute.dtype == ModelDtype::kAuto ||
      compute.activations == ActivationType::kAuto)
    Fail("assignment: backend, dtype and activations must be settled, not auto");
  if (compute.backend == BackendKind::kCpu && compute.kv_cache_dtype == KvCacheDtype::kAuto)
    Fail("assignment: the KV cache's type must be settled on the CPU, not auto");
  return {
      .model_path = Text(m.model_path()),
      .fingerprint = Text(m.fingerprint()),
      .load_format = ReadChoice<LoadFormat>(m.load_format(), "load_format"),
      .ctrl_port = m.ctrl_port(),
      .block_size = m.block_size(),
      .max_step_tokens = m.max_step_tokens(),
      .max_running = m.max_running(),
      .max_model_len = m.max_model_len(),
      .threads = m.threads(),
      .shares = Numbers<double>(m.shares()),
      .stage_layers = Numbers<int32_t>(m.stage_layers()),
      .compute = compute,
      .devices = Numbers<int32_t>(m.devices()),
      .adapters = Texts(m.adapters()),
      .draft = {Text(m.draft_path()), Text(m.draft_fingerprint()), m.draft_tokens(), m.draft_sequences(),
                m.draft_model_len(), m.draft_predicts()},
      .draft_rows = m.draft_rows(),
  };
}

BeatMessage ReadBeat(const wire::Beat& m) { return {m.begun(), m.answered(), m.late_micros(), m.starved_micros()}; }

}  // namespace

uint64_t HashBytes(std::span<const std::byte> bytes) {
  static constexpr unsigned char kKey[crypto_shorthash_KEYBYTES] = "quire frame key";
  uint64_t hash = 0;
  static_assert(sizeof(hash) == crypto_shorthash_BYTES);
  crypto_shorthash(reinterpret_cast<unsigned char*>(&hash), reinterpret_cast<const unsigned char*>(bytes.data()),
                   bytes.size(), kKey);
  return hash;
}

uint64_t HashTokens(std::span<const SampledToken> tokens) {
  std::vector<int32_t> flat;
  for (const auto& t : tokens) {
    flat.push_back(static_cast<int32_t>(t.slot));
    flat.push_back(t.token);
  }
  return HashBytes(std::as_bytes(std::span(flat)));
}

Frame Encode(const Message& message, EpochId epoch, StepId step) {
  fb::FlatBufferBuilder builder(1024);
  const FrameKind kind = std::visit(HandshakeWriter{builder}, message);
  return Finish(builder, kind, epoch, step);
}

Frame EncodePlan(const StepPlan& plan) { return Encode(plan, plan.epoch, plan.step); }
Frame EncodeResult(const StepResult& result) { return Encode(result, result.epoch, result.step); }

Message Decode(const Frame& frame) {
  CheckHeader(frame);
  switch (frame.header.kind) {
    case FrameKind::kJoin:
      return ReadJoin(Root<wire::Join>(frame));
    case FrameKind::kAssign:
      return ReadAssign(Root<wire::Assign>(frame));
    case FrameKind::kHello: {
      const auto& m = Root<wire::Hello>(frame);
      return HelloMessage{.fingerprint = Text(m.fingerprint()),
                          .isa = Text(m.isa()),
                          .bytes_per_block = m.bytes_per_block(),
                          .weight_bytes = m.weight_bytes(),
                          .available_bytes = m.available_bytes(),
                          .load_millis = m.load_millis(),
                          .bytes_per_state = m.bytes_per_state(),
                          .whole_block = ReadPart(m.whole_block_bytes(), m.whole_given(), m.whole_taken()),
                          .whole_state = ReadPart(m.whole_state_bytes(), m.state_given(), m.state_taken()),
                          .working = {m.process_bytes(), m.step_bytes(), m.file_bytes()}};
    }
    case FrameKind::kStart:
      return ReadStart(Root<wire::Start>(frame));
    case FrameKind::kReady: {
      const auto& m = Root<wire::Ready>(frame);
      return ReadyMessage{m.num_blocks(), m.num_host_blocks(), m.swap_nanos_per_block(), m.state_blocks()};
    }
    case FrameKind::kFailure: {
      const auto& m = Root<wire::Failure>(frame);
      return FailureMessage{.phase = Text(m.phase()), .message = Text(m.message()), .by_settings = m.by_settings()};
    }
    case FrameKind::kBeat:
      return ReadBeat(Root<wire::Beat>(frame));
    case FrameKind::kShutdown:
      return ShutdownMessage{Text(Root<wire::Shutdown>(frame).reason())};
    case FrameKind::kTakeBlocks:
    case FrameKind::kGiveBlocks:
    case FrameKind::kStopBlocks:
    case FrameKind::kFreeBlocks:
    case FrameKind::kBlocksReport:
      return ReadBlocksMessage(frame);
    case FrameKind::kBlockChunk:
      Fail("frame: a piece of a KV block where none may come");
    case FrameKind::kVocabulary:
      return ReadVocabulary(Root<wire::Vocabulary>(frame));
    case FrameKind::kGrammar:
      return ReadGrammarMessage(Root<wire::Grammar>(frame));
    case FrameKind::kGrammarReady:
      return ReadGrammarReady(Root<wire::GrammarReady>(frame));
    case FrameKind::kAdapter:
      return ReadAdapterMessage(Root<wire::Adapter>(frame));
    case FrameKind::kAdapterReady:
      return ReadAdapterReady(Root<wire::AdapterReady>(frame));
    case FrameKind::kPlan:
      return ReadPlan(frame);
    case FrameKind::kResult:
      return ReadResult(frame);
  }
  Fail("frame: unknown kind {}", static_cast<int>(frame.header.kind));
}

namespace {

/// The first bytes of a chunk's body. The chunk's data follow.
struct ChunkHead {
  uint64_t ticket;
  uint32_t num_blocks, block;
  uint64_t offset;
  uint32_t giver, by_device;
};
static_assert(sizeof(ChunkHead) == 32);

}  // namespace

Frame EncodeChunk(const ChunkPlace& place, std::span<const std::span<const std::byte>> parts) {
  const ChunkHead head{place.ticket, place.num_blocks, place.block, place.offset, place.giver, place.by_device};
  size_t size = sizeof(head);
  for (const auto& part : parts) size += part.size();
  Frame frame;
  frame.body.resize(size);
  std::memcpy(frame.body.data(), &head, sizeof(head));
  std::byte* to = frame.body.data() + sizeof(head);
  for (const auto& part : parts) to = std::ranges::copy(part, to).out;
  frame.header.kind = FrameKind::kBlockChunk;
  frame.header.epoch = place.epoch;
  frame.header.step = place.number;
  frame.header.body_hash = HashBytes(frame.body);
  return frame;
}

BlockChunk DecodeChunk(const Frame& frame) {
  CheckHeader(frame);
  ChunkHead head{};
  if (frame.header.kind != FrameKind::kBlockChunk || frame.body.size() < sizeof(head))
    Fail("frame of kind {}: no piece of a KV block", static_cast<int>(frame.header.kind));
  std::memcpy(&head, frame.body.data(), sizeof(head));
  const ChunkPlace place{.ticket = head.ticket,
                         .number = frame.header.step,
                         .epoch = frame.header.epoch,
                         .giver = head.giver,
                         .num_blocks = head.num_blocks,
                         .block = head.block,
                         .offset = head.offset,
                         .by_device = head.by_device != 0};
  return {place, std::span(frame.body).subspan(sizeof(head))};
}

StepPlan DecodePlan(const Frame& frame, const PlanLimits& limits) {
  Message message = Decode(frame);
  auto* plan = std::get_if<StepPlan>(&message);
  if (plan == nullptr) Fail("frame: expected a plan, got kind {}", static_cast<int>(frame.header.kind));
  CheckPlan(*plan, limits);
  return std::move(*plan);
}

}  // namespace quire
