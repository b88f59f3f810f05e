#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "coordinator/journal/command_archive.h"
#include "coordinator/journal/engine_archive.h"
#include "coordinator/journal/journal_entry.h"
#include "coordinator/journal/replay.h"

namespace quire {

namespace {

/// Turns a journal's records about one request into text.
class Story {
 public:
  explicit Story(const std::string& id_or_name) : wanted_(id_or_name) {}

  void Hear(const Record& record) {
    ArchiveReader in(record.payload);
    switch (record.type) {
      case TypeOf<command::Submit>():
        return Submitted(in);
      case TypeOf<command::Adopt>():
        return Adopted(in);
      case TypeOf<command::CacheStored>():
        return CameBack(in);
      case TypeOf<command::Plan>():
        now_ = in.Next<command::Plan>().now;
        return;
      case static_cast<uint8_t>(JournalEntry::kDecision):
        now_ = in.Next<double>();
        return Decided(in.Next<Decision>());
      case static_cast<uint8_t>(JournalEntry::kLost):
        return Lost(in.Next<uint64_t>());
      default:
        return;
    }
  }

  void BeginSegment(double unix_offset) { unix_offset_ = unix_offset; }
  bool known() const { return !text_.empty(); }
  std::string Tell() const { return text_; }

 private:
  bool IsWanted(RequestId id) const {
    return std::to_string(id) == wanted_ || std::ranges::find(ids_, id) != ids_.end();
  }

  void Submitted(ArchiveReader& in) {
    const auto request = LoadSubmitted(in);
    const bool refused = in.Next<OutcomeRecord>().refused;
    std::erase(ids_, request->id);  // request ids start again with every server; names do not repeat
    if (request->name == wanted_) ids_.push_back(request->id);
    const size_t stored = TakeStored(*request);
    if (!IsWanted(request->id)) return;
    arrival_ = request->arrival_seconds;
    const auto when = static_cast<std::time_t>(*arrival_ + unix_offset_);
    text_ += fmt::format("request {} ({}) arrived {:%Y-%m-%d %H:%M:%S} UTC\n", request->id, request->name,
                         fmt::gmtime(when));
    text_ += fmt::format("  {} prompt tokens, at most {} more, {} {}, priority {}, client \"{}\"\n",
                         request->num_prompt_tokens(), request->limits.max_tokens, request->sequences.size(),
                         request->beams != nullptr ? "beams" : "choices", request->priority, request->client);
    if (stored > 0)
      text_ += fmt::format("  blocks came back from --kv-disk: {} tokens of its prompt are cached\n", stored);
    if (refused) text_ += "  refused: it can never fit\n";
  }

  /// Stored blocks that were read back into the cache for a request that enters later.
  struct Stored {
    std::string salt;
    int adapter;
    std::vector<TokenId> tokens;  // tokens of the stored blocks, and of the cached blocks before them
  };
  void CameBack(ArchiveReader& in) {
    CommandOperands operands;
    const size_t number = TypeOf<command::CacheStored>() - static_cast<size_t>(JournalEntry::kCommands);
    const auto command = std::get<command::CacheStored>(LoadCommand(in, number, operands));
    stored_.push_back({operands.salt, command.adapter, operands.tokens});
  }

  /// Takes the entries of stored_ that fit the request's prompt. Returns how many leading tokens of the prompt they
  /// cover; 0: no entry fits.
  size_t TakeStored(const Request& request) {
    size_t tokens = 0;
    std::erase_if(stored_, [&](const Stored& stored) {
      const std::vector<TokenId>& prompt = request.sequences.front().tokens;
      const bool fits = stored.salt == request.cache_salt && stored.adapter == request.adapter &&
                        stored.tokens.size() <= prompt.size() &&
                        std::ranges::equal(stored.tokens, std::span(prompt).first(stored.tokens.size()));
      if (fits) tokens = std::max(tokens, stored.tokens.size());
      return fits;
    });
    return tokens;
  }

  void Adopted(ArchiveReader& in) {
    const auto request = LoadMoving(in);
    std::erase(ids_, request->id);
    if (request->name == wanted_) ids_.push_back(request->id);
    if (IsWanted(request->id)) arrival_ = request->arrival_seconds;
  }

  /// Reports lost records if the request was found before them: the gap may hide a part of its story.
  void Lost(uint64_t records) {
    if (known()) text_ += fmt::format("           {} records are missing here: the disk did not take them\n", records);
  }

  void Decided(const Decision& decision) {
    if (!IsWanted(decision.request)) return;
    text_ += fmt::format("{:>+9.3f} s  {}\n", arrival_ ? now_ - *arrival_ : 0, Describe(decision));
  }

  std::string wanted_, text_;
  std::vector<RequestId> ids_;  // ids of requests with the wanted name
  std::vector<Stored> stored_;
  double unix_offset_ = 0, now_ = 0;
  std::optional<double> arrival_;
};

}  // namespace

std::string ExplainRequest(const std::string& directory, const std::string& id_or_name) {
  RecordReader reader(directory);
  Story story(id_or_name);
  for (const uint64_t number : reader.Segments()) {
    reader.Open(number);
    const auto snapshot = ReadSnapshot(reader);
    if (!snapshot || snapshot->foreign) continue;
    story.BeginSegment(snapshot->unix_offset);
    while (const auto record = reader.Next()) story.Hear(*record);
  }
  if (!story.known()) {
    Fail("{}: the journal does not know request {}; it may be older than what is kept", directory, id_or_name);
  }
  return story.Tell();
}

}  // namespace quire
