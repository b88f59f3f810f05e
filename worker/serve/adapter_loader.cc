#include "worker/serve/adapter_loader.h"

#include <new>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/give_way.h"

namespace quire {

AdapterLoader::AdapterLoader(const ModelFiles& base, StepExecutor& executor, std::function<void()> on_read)
    : base_(base), executor_(executor), on_read_(std::move(on_read)), thread_([this] { Run(); }) {}

AdapterLoader::~AdapterLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void AdapterLoader::Follow(const AdapterMessage& order) {
  if (!order.path.empty()) {
    wanted_.insert(order.ticket);
    {
      const std::lock_guard lock(mutex_);
      orders_.push_back(order);
    }
    changed_.notify_one();
    return;
  }
  wanted_.erase(order.ticket);
  for (auto used = in_use_.begin(); used != in_use_.end(); ++used) {
    if (used->second != order.ticket) continue;
    executor_.SetAdapter(used->first, nullptr);
    in_use_.erase(used);
    return;
  }
}

std::vector<AdapterReady> AdapterLoader::TakeReports() {
  if (!has_read_) return {};
  std::vector<Read> all;
  {
    const std::lock_guard lock(mutex_);
    all = std::exchange(read_, {});
    has_read_ = false;
  }
  std::vector<AdapterReady> reports;
  for (Read& read : all) {
    if (!wanted_.contains(read.order.ticket)) continue;
    if (read.shard != nullptr) {
      executor_.SetAdapter(read.order.number, std::move(read.shard));
      in_use_[read.order.number] = read.order.ticket;
    }
    reports.push_back(std::move(read.report));
  }
  return reports;
}

AdapterLoader::Read AdapterLoader::ReadOne(const AdapterMessage& order) const {
  Read read{order, {order.ticket, "", 0}, nullptr};
  try {
    const AdapterFiles files = AdapterFiles::Open(order.path, base_, order.file_bytes);
    if (files.fingerprint() != order.fingerprint)
      Fail("{}: this host's adapter differs from the coordinator's (fingerprint {} against {})", order.path,
           files.fingerprint(), order.fingerprint);
    read.shard = executor_.engine().ReadAdapter(base_, files);
    read.report.bytes = static_cast<uint64_t>(read.shard->bytes());
  } catch (const std::bad_alloc&) {
    read.report.problem = "it takes more memory than this worker has";
  } catch (const std::exception& error) {
    read.report.problem = error.what();
  }
  return read;
}

void AdapterLoader::Run() {
  WorkBesideSteps();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !orders_.empty(); });
    if (stopping_) return;
    const AdapterMessage order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    Read read = ReadOne(order);
    lock.lock();
    read_.push_back(std::move(read));
    has_read_ = true;
    lock.unlock();
    on_read_();
    lock.lock();
  }
}

}  // namespace quire
