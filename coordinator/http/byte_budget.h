#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace quire {

/// Counts the bytes of this process's memory that requests hold, per client and for all clients together. A request is
/// charged before it allocates, from the arrival of its head to the last byte of its answer. Refusals are returned as a
/// Verdict, and the caller decides how to answer. Only the I/O thread uses this class.
class ByteBudget {
 public:
  struct Limits {
    int64_t in_all = 0;
    int64_t per_client = 0;  // bytes of one named client; unnamed clients cannot be told apart and share in_all
  };
  enum class Verdict {
    kTaken,
    kNotNow,  // other requests hold too many bytes; this one may fit later
    kNever,   // more than this client may ever hold, even alone
  };

 private:
  struct Account {
    int64_t bytes = 0;
    int num_leases = 0;
  };
  using Accounts = std::map<std::string, Account>;

 public:
  /// The bytes of one request. The destructor returns the bytes to the budget, which must outlive the lease.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { Return(); }

    /// Sets the held bytes to `bytes`. When the verdict is not kTaken, the held bytes stay unchanged. A decrease always
    /// succeeds. A lease without a budget takes any number.
    Verdict Resize(int64_t bytes);
    /// Sets the held bytes of a request that does not run yet. The verdict is also kNotNow when the client would then
    /// hold more than its share (InShare), so that memory remains for clients without requests, and for answers that
    /// grow by Resize().
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

  /// Returns a lease of 0 bytes. `client` is the client's name; empty: unnamed.
  Lease For(const std::string& client);

  const Limits& limits() const { return limits_; }
  /// Replaces the limits. A lease that exceeds the new limits keeps its bytes but cannot grow.
  void SetLimits(const Limits& limits) { limits_ = limits; }
  /// Returns the most bytes that one request of this client could ever hold.
  int64_t MostFor(const std::string& client) const;
  /// True when a client may hold `held` bytes while `free` bytes of in_all stay free, that is, if held / per_client <=
  /// free / (in_all - per_client). If per_client is half of in_all (the default), the condition is held <= free. A
  /// client that is alone may hold `per_client` bytes. Returns true for a client without a name, and when per_client >=
  /// in_all.
  bool InShare(const std::string& client, int64_t held, int64_t free) const;
  int64_t taken() const { return taken_; }
  size_t num_clients() const { return accounts_.size(); }

 private:
  Limits limits_;
  int64_t taken_ = 0;
  Accounts accounts_;  // name -> account, for clients that have leases
};

}  // namespace quire
