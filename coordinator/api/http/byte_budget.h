#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace quire {

/// What requests hold in this process's memory, from the declared length of a body to the last byte of an answer:
/// charged before it is taken, for each client and for all together. Scarcity is a value: who is refused decides what
/// that means. One thread: the I/O thread.
class ByteBudget {
 public:
  struct Limits {
    int64_t in_all = 0;
    int64_t per_client = 0;  // of a client with a name; those that nobody can tell apart share what there is
  };
  enum class Verdict {
    kTaken,
    kNotNow,  // others hold too much; it may fit later
    kNever,   // more than a client may have, whatever the others do
  };

 private:
  struct Account {
    int64_t bytes = 0;
    int num_leases = 0;
  };
  using Accounts = std::map<std::string, Account>;

 public:
  /// One request's part. Given back when it goes; must go before the budget does.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { Return(); }

    /// Changes what is held to `bytes`, or leaves it as it was. Less always succeeds. Without a budget all is taken.
    Verdict Resize(int64_t bytes);
    /// The same for a request that is not at work yet, which more than a client's share makes wait: so there is room
    /// left for those who hold nothing, however many hold their shares, and for answers that grow by Resize().
    Verdict Admit(int64_t bytes);
    int64_t bytes() const { return bytes_; }

   private:
    friend class ByteBudget;
    Lease(ByteBudget& budget, Accounts::iterator account);
    void Return();

    ByteBudget* budget_ = nullptr;
    Accounts::iterator account_;
    int64_t bytes_ = 0;
  };

  explicit ByteBudget(Limits limits) : limits_(limits) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  /// A lease of nothing yet. client: whose, or empty.
  Lease For(const std::string& client);

  const Limits& limits() const { return limits_; }
  /// Other limits from now on. Whoever holds more than they allow keeps it, and gets no more.
  void SetLimits(const Limits& limits) { limits_ = limits; }
  /// The most that one request of this client could ever hold.
  int64_t MostFor(const std::string& client) const;
  /// Whether a client may come to hold that much while `free` bytes would be left. Of one alone the share is
  /// `per_client`; of many, each is as large as what all of them leave (by default, where per_client is half). A client
  /// without a name has no share, and per_client = in_all means that nobody has one.
  bool InShare(const std::string& client, int64_t held, int64_t free) const;
  int64_t taken() const { return taken_; }
  size_t num_clients() const { return accounts_.size(); }

 private:
  Limits limits_;
  int64_t taken_ = 0;
  Accounts accounts_;  // of clients that have leases
};

}  // namespace quire
