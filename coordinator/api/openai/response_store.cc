#include "coordinator/api/openai/response_store.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

constexpr int64_t kEntryBytes = 512;  // bytes of nodes, keys, and rounding of allocations

}  // namespace

bool ResponseStore::Put(const std::string& client, const std::string& id, StoredResponse response) {
  response.response.shrink_to_fit();
  response.conversation.shrink_to_fit();
  const int64_t bytes = kEntryBytes +
                        static_cast<int64_t>(response.response.capacity() + response.conversation.capacity()) +
                        BytesOf(response.input);
  if (bytes > limits_.bytes_per_client ||
      static_cast<int64_t>(response.conversation.size()) > limits_.conversation_bytes)
    return false;
  const std::lock_guard lock(mutex_);
  const auto account = accounts_.try_emplace(client).first;
  Account& own = account->second;
  own.conversations.insert(response.conversation.size());
  own.entries.push_back({id, std::make_shared<const StoredResponse>(std::move(response)), bytes});
  own.by_id[id] = std::prev(own.entries.end());
  own.bytes += bytes;
  bytes_ += bytes;
  ++count_;
  while (own.bytes > limits_.bytes_per_client || own.entries.size() > limits_.count_per_client)
    Drop(account, own.entries.begin());
  while (bytes_ > limits_.bytes || count_ > limits_.count) {
    const auto largest = Largest();
    Drop(largest, largest->second.entries.begin());
  }
  return true;
}

std::shared_ptr<const StoredResponse> ResponseStore::Find(const std::string& client, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto account = accounts_.find(client);
  if (account == accounts_.end()) return nullptr;
  Account& own = account->second;
  const auto found = own.by_id.find(id);
  if (found == own.by_id.end()) return nullptr;
  own.entries.splice(own.entries.end(), own.entries, found->second);
  return found->second->response;
}

bool ResponseStore::Erase(const std::string& client, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto account = accounts_.find(client);
  if (account == accounts_.end()) return false;
  const auto found = account->second.by_id.find(id);
  if (found == account->second.by_id.end()) return false;
  Drop(account, found->second);
  return true;
}

size_t ResponseStore::LongestConversation(const std::string& client) const {
  const std::lock_guard lock(mutex_);
  const auto account = accounts_.find(client);
  return account == accounts_.end() ? 0 : *account->second.conversations.rbegin();
}

int64_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

/// Removes an entry, and the client's account when it was the last entry.
void ResponseStore::Drop(Accounts::iterator account, std::list<Entry>::iterator entry) {
  Account& own = account->second;
  own.bytes -= entry->bytes;
  bytes_ -= entry->bytes;
  --count_;
  own.by_id.erase(entry->id);
  own.conversations.erase(own.conversations.find(entry->response->conversation.size()));
  own.entries.erase(entry);
  if (own.entries.empty()) accounts_.erase(account);
}

ResponseStore::Accounts::iterator ResponseStore::Largest() {
  return std::ranges::max_element(accounts_, {}, [](const auto& account) { return account.second.bytes; });
}

}  // namespace quire
