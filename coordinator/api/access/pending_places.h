#pragma once

#include <map>
#include <string>

namespace quire {

/// Counts each client's choices that wait or run at one model. Each choice takes one of `most` places, and a client
/// alone may take all places. Yet a client with fewer places than an even part (most / clients with places) may take
/// places up to that part, even when all `most` places are taken. So K clients that each ask for all places hold at
/// most (1 + 1/2 + ... + 1/K) * most places together. Only the I/O thread uses this class.
class PendingPlaces {
 public:
  explicit PendingPlaces(int most) : most_(most) {}
  PendingPlaces(const PendingPlaces&) = delete;
  PendingPlaces& operator=(const PendingPlaces&) = delete;

  /// Returns how many more choices this client may have waiting or running; negative if the client exceeds its limit.
  int RoomFor(const std::string& client) const;
  int taken() const { return taken_; }
  int taken_by(const std::string& client) const;
  /// Returns the number of clients with counted choices; other clients take no memory in this object.
  size_t num_clients() const { return by_client_.size(); }

  /// While an object of this class lives, it counts the choices of one call of a client. The PendingPlaces must outlive
  /// this object.
  class Taken {
   public:
    Taken(PendingPlaces& places, const std::string& client);
    ~Taken() { Resize(0); }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

    /// Changes the number of counted choices to `count`, even beyond the limit.
    void Resize(int count);
    int count() const { return count_; }

   private:
    PendingPlaces& places_;
    const std::string client_;
    int count_ = 0;
  };

 private:
  const int most_;
  int taken_ = 0;
  std::map<std::string, int> by_client_;  // has only clients with counted choices
};

}  // namespace quire
