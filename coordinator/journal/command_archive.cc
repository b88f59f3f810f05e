#include "coordinator/journal/command_archive.h"

#include <utility>

#include "comm/wire/messages.h"
#include "coordinator/journal/engine_archive.h"

namespace quire {

namespace {

// A command without its own pair of Save and Load is copied as bytes. Commands that point to other values need their
// own pair.

template <class C>
void Save(ArchiveWriter& out, const C& command) {
  out(command);
}
template <class C>
C Load(ArchiveReader& in, CommandOperands&, std::type_identity<C>) {
  return in.Next<C>();
}

void Save(ArchiveWriter& out, const command::Submit& c) { SaveSubmitted(out, *c.request); }
command::Submit Load(ArchiveReader& in, CommandOperands& operands, std::type_identity<command::Submit>) {
  operands.request = LoadSubmitted(in);
  return {operands.request};
}

void Save(ArchiveWriter& out, const command::Commit& c) {
  SaveTokens(out, c.tokens);
  out(c.times, static_cast<uint32_t>(c.guesses.size()));
  for (const Draft& guess : c.guesses) out(guess.slot, guess.tokens);
}
command::Commit Load(ArchiveReader& in, CommandOperands& operands, std::type_identity<command::Commit>) {
  operands.sampled = LoadTokens(in);
  const auto times = in.Next<StepTimes>();
  operands.guesses.clear();
  for (auto count = in.Next<uint32_t>(); count > 0; --count) {
    Draft& guess = operands.guesses.emplace_back();
    in(guess.slot, guess.tokens);
  }
  return {operands.sampled, times, operands.scores, operands.guesses};
}

void Save(ArchiveWriter& out, const command::PinPrefix& c) { out(c.salt, c.tokens, c.expires_seconds); }
command::PinPrefix Load(ArchiveReader& in, CommandOperands& operands, std::type_identity<command::PinPrefix>) {
  in(operands.salt, operands.tokens);
  return {operands.salt, operands.tokens, in.Next<double>()};
}

void Save(ArchiveWriter& out, const command::Adopt& c) {
  SaveMoving(out, *c.request);
  out(c.ticket, std::vector<BlockId>(c.blocks.begin(), c.blocks.end()));
}
command::Adopt Load(ArchiveReader& in, CommandOperands& operands, std::type_identity<command::Adopt>) {
  operands.request = LoadMoving(in);
  const auto ticket = in.Next<uint64_t>();
  in(operands.blocks);
  return {operands.request, ticket, operands.blocks};
}

void Save(ArchiveWriter& out, const command::ChangeOptions& c) {
  out(c.prefix_caching, c.max_wait_seconds, c.max_request_seconds, c.target_step_seconds);
}
command::ChangeOptions Load(ArchiveReader& in, CommandOperands&, std::type_identity<command::ChangeOptions>) {
  command::ChangeOptions c;
  in(c.prefix_caching, c.max_wait_seconds, c.max_request_seconds, c.target_step_seconds);
  return c;
}

void Save(ArchiveWriter& out, const command::HoldCached& c) {
  out(c.ticket, std::vector<BlockId>(c.blocks.begin(), c.blocks.end()));
}
command::HoldCached Load(ArchiveReader& in, CommandOperands& operands, std::type_identity<command::HoldCached>) {
  const auto ticket = in.Next<uint64_t>();
  in(operands.blocks);
  return {ticket, operands.blocks};
}

template <class C>
void SaveStored(ArchiveWriter& out, const C& c) {
  out(c.salt, c.tokens, c.adapter, c.ticket, c.prefix);
}
template <class C>
C LoadStored(ArchiveReader& in, CommandOperands& operands) {
  in(operands.salt);
  in(operands.tokens);
  const int adapter = in.Next<int>();
  const auto ticket = in.Next<uint64_t>();
  return {operands.salt, operands.tokens, adapter, ticket, in.Next<int>()};
}

void Save(ArchiveWriter& out, const command::ReserveForStored& c) { SaveStored(out, c); }
command::ReserveForStored Load(ArchiveReader& in, CommandOperands& operands,
                               std::type_identity<command::ReserveForStored>) {
  return LoadStored<command::ReserveForStored>(in, operands);
}

void Save(ArchiveWriter& out, const command::CacheStored& c) { SaveStored(out, c); }
command::CacheStored Load(ArchiveReader& in, CommandOperands& operands, std::type_identity<command::CacheStored>) {
  return LoadStored<command::CacheStored>(in, operands);
}

template <size_t number>
Command LoadNumber(ArchiveReader& in, CommandOperands& operands) {
  return Load(in, operands, std::type_identity<std::variant_alternative_t<number, Command>>());
}

template <size_t... number>
Command LoadOneOf(ArchiveReader& in, size_t wanted, CommandOperands& operands, std::index_sequence<number...>) {
  using Loader = Command (*)(ArchiveReader&, CommandOperands&);
  constexpr Loader kLoaders[] = {&LoadNumber<number>...};
  if (wanted >= std::size(kLoaders)) Fail("journal: a record of a command that is not known");
  return kLoaders[wanted](in, operands);
}

}  // namespace

OutcomeRecord RecordOf(const CommandOutcome& outcome) {
  OutcomeRecord record;
  record.refused = outcome.refused;
  if (outcome.plan != nullptr) {
    record.step = outcome.plan->step;
    record.plan_hash = EncodePlan(*outcome.plan).header.body_hash;
  }
  record.stopped.assign(outcome.stopped.begin(), outcome.stopped.end());
  return record;
}

void SaveCommand(ArchiveWriter& out, const Command& command) {
  std::visit([&](const auto& each) { Save(out, each); }, command);
}

Command LoadCommand(ArchiveReader& in, size_t number, CommandOperands& operands) {
  return LoadOneOf(in, number, operands, std::make_index_sequence<std::variant_size_v<Command>>());
}

}  // namespace quire
