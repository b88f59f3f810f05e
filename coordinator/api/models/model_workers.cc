#include "coordinator/api/models/model_workers.h"

#include <utility>

#include "coordinator/log/log.h"

namespace quire {

ModelWorkers::ModelWorkers(const Topology& topology, const ModelFiles& files, const std::atomic<bool>& cancel,
                           std::shared_ptr<const Vocabulary> vocabulary, EventFeed& events, std::string log_name,
                           std::function<void(std::exception_ptr)> started)
    : thread_([this, &topology, &files, &cancel, vocabulary = std::move(vocabulary), &events,
               log_name = std::move(log_name), started = std::move(started)] {
        const LogName named(log_name);
        std::exception_ptr failure;
        try {
          replicas_ = std::make_unique<Replicas>(topology, files, cancel, vocabulary, events);
        } catch (...) {
          failure = std::current_exception();
        }
        started(failure);
        ended_.wait(false);
        replicas_.reset();
      }) {}

ModelWorkers::~ModelWorkers() {
  ended_ = true;
  ended_.notify_all();
  thread_.join();
}

}  // namespace quire
