#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quire {

/// A client whose request needs a model. `name`: a key, or a network where there are no keys; empty: an operator.
/// `background`: the request is a line of a batch.
struct ModelClient {
  std::string name;
  bool background = false;
  bool operator==(const ModelClient&) const = default;
};

/// The time at which each client's request last caused a model to be loaded (its turn). At most kMost clients are
/// remembered; the client whose turn is longest ago is forgotten first.
class ClientTurns {
 public:
  static constexpr size_t kMost = 256;
  void Note(const std::string& client, double now);
  /// Returns the time at which the client's request last caused a load; minus infinity: never, or the time is
  /// forgotten.
  double LastOf(const std::string& client) const;

 private:
  std::map<std::string, double> last_;
};

/// The clients of one model: which clients wait for the model, which have used the model since its workers started, and
/// how long each client wants the model to stay loaded. All times are seconds on one clock.
class ModelClients {
 public:
  static constexpr size_t kMost = 256;  // most remembered clients; the client with the earliest end is forgotten first

  /// `keep_alive`: seconds that the model stays loaded after requests of clients that set no time of their own;
  /// negative: forever.
  explicit ModelClients(double keep_alive = -1) : keep_alive_(keep_alive) {}

  void AddWish(const ModelClient& client, double now);
  /// Removes one of the client's waiting requests for the model. Returns false when none of the client's requests
  /// waits.
  bool RemoveWish(const ModelClient& client);
  int wishes() const { return static_cast<int>(wishes_.size()); }
  /// True when at least one waiting request is not a line of a batch.
  bool HasWish() const { return lines_ < wishes(); }
  /// Returns the time at which the oldest waiting request began to wait. Lines of batches count only if no other
  /// request waits. Infinity: no request waits.
  double WishedSince() const;
  /// The waiting request that comes first, and the time when it may cause a load. If the client caused a load less than
  /// `share` seconds before the request, this time is at least `share` seconds after that load. Infinity: no request
  /// waits.
  struct Due {
    double seconds = std::numeric_limits<double>::infinity();
    std::string client;
  };
  Due FirstDue(const ClientTurns& turns, double share) const;

  /// Sets the seconds that this client wants the model to stay loaded after its requests; negative: forever.
  void Keep(const std::string& client, double seconds);
  void Used(const ModelClient& client, double now);
  /// Notes that new workers have started, which no client has used yet.
  void Begin();
  /// Returns the latest time until which a client that used the model wants it to stay loaded; infinity: forever. A
  /// model that no client has used stays loaded for keep_alive seconds from `began`, when its workers started.
  double End(double began) const;
  /// Returns the time of the last use other than by a line of a batch; minus infinity: there was none.
  double LastUse() const { return last_use_; }
  /// True when a client has used this model, other than by lines of batches, and has no request that waits for the
  /// model of `wished`.
  bool UsedByOthersThan(const ModelClients& wished) const;

 private:
  struct Wish {
    ModelClient client;
    double since = 0;
  };
  struct Times {
    std::optional<double> keep;       // seconds that the client wants the model to stay loaded; nullopt: it set none
    std::optional<double> last_used;  // time in seconds; nullopt: not used since the workers started
    bool ordinary = false;            // true: the client also sent requests that are not lines of batches
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
