#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/access/pending_places.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/api/openai/call_preparer.h"
#include "coordinator/api/openai/chat_pages.h"
#include "coordinator/api/openai/text_pages.h"
#include "coordinator/http/http_types.h"
#include "coordinator/http/work_pool.h"
#include "coordinator/metrics/metrics.h"

namespace quire {

/// The objects with which the data port serves the calls of one model.
struct ModelDesk {
  /// The references must outlive this object.
  ModelDesk(ServedModel& served, CallMetrics& call_metrics);

  /// Returns the most tokens of one choice for a call whose longest prompt has longest_prompt tokens. Throws ApiError
  /// when the call asks for more tokens than fit into the context after the prompt.
  int MaxTokens(const GenerateCall& call, size_t longest_prompt) const;

  ServedModel& model;
  CallMetrics& metrics;
  const CallLimits limits;
  const CallPreparer preparer;
  const TextPages text;
  const ChatPages chat;
  PendingPlaces places;  // counts choices; a call counts as 1 while the number of its choices is not known
};

/// The ModelDesks of all models, in the order of the ModelRoster. A request's field "model" chooses its desk. Only the
/// I/O thread uses this class.
class ModelDesks {
 public:
  /// The references must outlive this object. The pool must be stopped before this object is destroyed.
  ModelDesks(ModelRoster& models, Metrics& metrics, WorkPool& pool);

  size_t size() const { return desks_.size(); }
  ModelDesk& at(size_t model) { return *desks_[model]; }
  const ModelDesk& at(size_t model) const { return *desks_[model]; }
  /// Returns the ModelDesk of the first model, for requests that name no model.
  ModelDesk& first() { return at(0); }
  /// Returns the ModelDesk of the model that the request's body names. A body that names no model, or that is no JSON,
  /// gets the first ModelDesk. If there is only one ModelDesk, returns it without reading the body. Returns null when
  /// the client left meanwhile. Throws ApiError 404 for an unknown name.
  boost::asio::awaitable<ModelDesk*> Find(const HttpRequest& request, HttpResponder& responder);
  /// Returns the ModelDesk of the model with this name; the first ModelDesk for an empty name. Throws ApiError 404 for
  /// an unknown name.
  ModelDesk& Named(const std::string& name);

  /// Return sums over all models: the choices that wait or run; the most choices that may wait or run; the most
  /// sequences that may run.
  int num_pending() const;
  int max_pending() const;
  int max_running() const;

 private:
  ModelRoster& models_;
  WorkPool& pool_;
  std::vector<std::unique_ptr<ModelDesk>> desks_;
};

/// Returns the value of "model" in a JSON object, found without making a tree of the object; "" when there is no such
/// text.
std::string ModelNamedIn(const std::string& body);

}  // namespace quire
