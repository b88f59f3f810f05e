#include "coordinator/http/byte_budget.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

ByteBudget::Lease ByteBudget::For(const std::string& client) {
  return Lease(*this, accounts_.try_emplace(client).first);
}

int64_t ByteBudget::MostFor(const std::string& client) const {
  return client.empty() ? limits_.in_all : std::min(limits_.in_all, limits_.per_client);
}

bool ByteBudget::InShare(const std::string& client, int64_t held, int64_t free) const {
  if (client.empty() || limits_.per_client >= limits_.in_all) return true;
  // The products of two byte counts may exceed 64 bits.
  const auto most = static_cast<double>(limits_.per_client);
  return static_cast<double>(held) * (static_cast<double>(limits_.in_all) - most) <= most * static_cast<double>(free);
}

ByteBudget::Lease::Lease(ByteBudget& budget, Accounts::iterator account) : budget_(&budget), account_(account) {
  ++account_->second.num_leases;
}

ByteBudget::Lease::Lease(Lease&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      account_(other.account_),
      bytes_(std::exchange(other.bytes_, 0)) {}

ByteBudget::Lease& ByteBudget::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Return();
  budget_ = std::exchange(other.budget_, nullptr);
  account_ = other.account_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

ByteBudget::Verdict ByteBudget::Lease::Resize(int64_t bytes) {
  QUIRE_CHECK(bytes >= 0, "{} bytes", bytes);
  const int64_t more = bytes - bytes_;
  if (budget_ != nullptr) {
    const int64_t most = budget_->MostFor(account_->first);
    if (more > 0 && bytes > most) return Verdict::kNever;
    const bool client_full = !account_->first.empty() && account_->second.bytes + more > most;
    if (more > 0 && (client_full || budget_->taken_ + more > budget_->limits_.in_all)) return Verdict::kNotNow;
    account_->second.bytes += more;
    budget_->taken_ += more;
  }
  bytes_ = bytes;
  return Verdict::kTaken;
}

ByteBudget::Verdict ByteBudget::Lease::Admit(int64_t bytes) {
  const int64_t more = bytes - bytes_;
  if (budget_ == nullptr || more <= 0 || bytes > budget_->MostFor(account_->first)) return Resize(bytes);
  const int64_t free = budget_->limits_.in_all - budget_->taken_ - more;
  if (!budget_->InShare(account_->first, account_->second.bytes + more, free)) return Verdict::kNotNow;
  return Resize(bytes);
}

void ByteBudget::Lease::Return() {
  if (budget_ == nullptr) return;
  (void)Resize(0);
  if (--account_->second.num_leases == 0) budget_->accounts_.erase(account_);
  budget_ = nullptr;
}

}  // namespace quire
