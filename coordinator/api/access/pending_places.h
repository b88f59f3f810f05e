#pragma once

#include <map>
#include <string>

namespace quire {

/// Places for choices that wait or run. One client alone may take all; but nobody is kept out by what another one took:
/// whoever has less than an even part of the places, counted among the clients that have some, gets them beside those
/// that are taken. So K clients that all ask for everything hold 1 + 1/2 + ... + 1/K times as many. One thread: the I/O
/// thread.
class PendingPlaces {
 public:
  explicit PendingPlaces(int most) : most_(most) {}
  PendingPlaces(const PendingPlaces&) = delete;
  PendingPlaces& operator=(const PendingPlaces&) = delete;

  /// How many more this client may take; below 0 when it has more than it may.
  int RoomFor(const std::string& client) const;
  int taken() const { return taken_; }
  int taken_by(const std::string& client) const;
  /// Clients that have some; nothing is kept of the others.
  size_t num_clients() const { return by_client_.size(); }

  /// Some client's places. Must go before what they are of.
  class Taken {
   public:
    Taken(PendingPlaces& places, const std::string& client);
    ~Taken() { Resize(0); }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

    /// Takes or gives back until there are so many, whether there is room or not.
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
  std::map<std::string, int> by_client_;  // of those that have some
};

}  // namespace quire
