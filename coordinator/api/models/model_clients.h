#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quire {

/// A client that asks for a model. `name`: a key or, where there are no keys, a network; empty: an operator.
/// `background`: the request is a line of a batch.
struct ModelClient {
  std::string name;
  bool background = false;
  bool operator==(const ModelClient&) const = default;
};

/// The time at which each of the last clients had a turn. Bounded: the client whose turn is longest ago is forgotten.
class ClientTurns {
 public:
  static constexpr size_t kMost = 256;
  void Note(const std::string& client, double now);
  /// Minus infinity: never, or forgotten.
  double LastOf(const std::string& client) const;

 private:
  std::map<std::string, double> last_;
};

/// The clients of one model: those that wait for it, those that used it since its workers started, and how long each
/// wants the model kept. All times are seconds on one clock.
class ModelClients {
 public:
  static constexpr size_t kMost = 256;  // clients whose times are kept; the one with the earliest end is forgotten

  /// `keep_alive`: how long a client that says nothing wants the model kept after its requests. Negative: always.
  explicit ModelClients(double keep_alive = -1) : keep_alive_(keep_alive) {}

  void AddWish(const ModelClient& client, double now);
  /// False when this client does not wait.
  bool RemoveWish(const ModelClient& client);
  int wishes() const { return static_cast<int>(wishes_.size()); }
  /// True when a request that is no line of a batch waits.
  bool HasWish() const { return lines_ < wishes(); }
  /// The begin of the oldest wish; of those that are no lines of batches, if there are any. Infinity: none.
  double WishedSince() const;
  /// Which wish comes first, and at which time its turn is due: a client that had a turn less than `share` seconds
  /// before its wish waits for the rest. Infinity without wishes.
  struct Due {
    double seconds = std::numeric_limits<double>::infinity();
    std::string client;
  };
  Due FirstDue(const ClientTurns& turns, double share) const;

  /// Sets how long the client wants the model kept after its requests. Negative: always.
  void Keep(const std::string& client, double seconds);
  void Used(const ModelClient& client, double now);
  /// New workers: nobody has used them.
  void Begin();
  /// The latest end that a client which used the model wants; infinity: none. `began`: when the workers started, whence
  /// a model is kept that nobody used.
  double End(double began) const;
  /// The last use that was no line of a batch; minus infinity: none.
  double LastUse() const { return last_use_; }
  /// True when a client that does not wait for `wished` used the model, with other requests than lines of batches.
  bool UsedByOthersThan(const ModelClients& wished) const;

 private:
  struct Wish {
    ModelClient client;
    double since = 0;
  };
  struct Times {
    std::optional<double> keep;       // what the client wants; nullopt: it did not say
    std::optional<double> last_used;  // nullopt: not since the workers started
    bool ordinary = false;            // used with other requests than lines of batches
  };
  double EndOf(const Times& times) const;
  Times& Of(const std::string& client);

  double keep_alive_;
  std::vector<Wish> wishes_;
  int lines_ = 0;  // wishes of lines of batches
  std::map<std::string, Times> times_;
  double last_use_ = -std::numeric_limits<double>::infinity();
};

}  // namespace quire
