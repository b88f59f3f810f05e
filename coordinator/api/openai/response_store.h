#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "coordinator/api/requests/input_items.h"

namespace quire {

/// A stored answer of /v1/responses.
struct StoredResponse {
  std::string response;               // the response object, in JSON
  std::string conversation;           // all chat messages with the answer, as a JSON list
  std::vector<InputItem> input = {};  // the items of the request itself
};

/// Keeps answers in memory, so that clients can continue a stored answer until newer answers displace it. A client
/// finds only its own answers. All methods are callable from any thread.
class ResponseStore {
 public:
  struct Limits {
    int64_t bytes = 64 << 20;  // most bytes of all clients' answers together
    // The most bytes of one client's answers. Beyond this limit, the client's least recently used answers are dropped.
    int64_t bytes_per_client = 16 << 20;
    int64_t conversation_bytes = 2 << 20;  // most bytes of one answer's conversation, which later requests parse again
    size_t count = 16'384;
    size_t count_per_client = 1'000;
  };
  explicit ResponseStore(Limits limits) : limits_(limits) {}

  /// Stores an answer. Returns false when the answer exceeds a limit and is not stored. When all clients' answers
  /// together exceed the limits, the client with the most bytes loses its least recently used answers.
  bool Put(const std::string& client, const std::string& id, StoredResponse response);
  /// Returns the stored answer and counts this as its latest use; null when the answer is not stored.
  std::shared_ptr<const StoredResponse> Find(const std::string& client, const std::string& id);
  /// Removes an answer. Returns false when it was not stored.
  bool Erase(const std::string& client, const std::string& id);

  /// Returns the bytes of the longest conversation that is stored for a client; 0: there is none.
  size_t LongestConversation(const std::string& client) const;

  int64_t bytes() const;

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const StoredResponse> response;
    int64_t bytes;
  };
  struct Account {
    std::list<Entry> entries;  // least recently used first
    std::map<std::string, std::list<Entry>::iterator> by_id;
    std::multiset<size_t> conversations;  // lengths of all conversations, in bytes
    int64_t bytes = 0;
  };
  using Accounts = std::map<std::string, Account>;

  void Drop(Accounts::iterator account, std::list<Entry>::iterator entry);
  Accounts::iterator Largest();

  const Limits limits_;
  mutable std::mutex mutex_;  // guards all members below
  Accounts accounts_;         // client -> its answers
  int64_t bytes_ = 0;
  size_t count_ = 0;
};

}  // namespace quire
