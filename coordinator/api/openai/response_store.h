#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace quire {

/// What is kept of an answer of /v1/responses.
struct StoredResponse {
  std::string response;      // as it was given, as JSON
  std::string conversation;  // the chat messages up to and with its answer, as a JSON list
};

/// Answers that clients may go back to, in memory, until others push them out. Nobody finds another client's. Every
/// method may be called from any thread.
class ResponseStore {
 public:
  struct Limits {
    int64_t bytes = 64 << 20;              // of all clients
    int64_t bytes_per_client = 16 << 20;   // beyond it a client's own answers go, the one used longest ago first
    int64_t conversation_bytes = 2 << 20;  // of one answer: it is read again with a body of that size
    size_t count = 16'384;
    size_t count_per_client = 1'000;
  };
  explicit ResponseStore(Limits limits) : limits_(limits) {}

  /// False: it is larger than what may be kept, and was not. When there is no room for all clients', the
  /// client that holds most loses some.
  bool Put(const std::string& client, const std::string& id, StoredResponse response);
  /// Null when there is none (any more).
  std::shared_ptr<const StoredResponse> Find(const std::string& client, const std::string& id);
  /// False: there was none.
  bool Erase(const std::string& client, const std::string& id);

  /// Bytes of the longest conversation that is kept for a client; 0: none is.
  size_t LongestConversation(const std::string& client) const;

  int64_t bytes() const;

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const StoredResponse> response;
    int64_t bytes;
  };
  struct Account {
    std::list<Entry> entries;  // the one used longest ago first
    std::map<std::string, std::list<Entry>::iterator> by_id;
    std::multiset<size_t> conversations;  // their lengths
    int64_t bytes = 0;
  };
  using Accounts = std::map<std::string, Account>;

  void Drop(Accounts::iterator account, std::list<Entry>::iterator entry);
  Accounts::iterator Largest();

  const Limits limits_;
  mutable std::mutex mutex_;  // guards all that follows
  Accounts accounts_;         // of clients that keep something
  int64_t bytes_ = 0;
  size_t count_ = 0;
};

}  // namespace quire
