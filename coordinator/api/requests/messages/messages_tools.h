#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/api/requests/json_object.h"

namespace quire {

/// The tools of a Messages request. The model sees some of them before the conversation. Others are deferred: the
/// conversation's text describes such a tool where it becomes available, so that the prompt before this description
/// stays in the prefix cache. Tools that a provider would execute are left out, with a line in the log.
class MessagesTools {
 public:
  /// Reads `tools` and `mcp_servers`. Throws ApiError for bad or impossible values.
  void Read(const JsonObject& body);
  /// Reads `tool_choice` into the chat request; call it after the conversation is read.
  void AddChoice(const JsonObject& choice, OrderedJson& chat);

  // These functions return text that tells the model about changes of its tools. Load returns the text for a tool that
  // becomes available. Only the first such text holds the tool's definition, so all texts together are longer than the
  // client's input by at most a sentence for each block.
  std::string Load(const std::string& name);
  /// Adds a tool that the conversation defines; the tool may replace another tool of the same name.
  std::string Define(const JsonObject& definition);
  std::string Remove(const std::string& name);

  /// Lists of OpenAI's tool objects. Shown(): the tools that the prompt describes before the conversation; Callable():
  /// the tools that the model may call.
  OrderedJson Shown() const;
  OrderedJson Callable() const;

 private:
  struct Entry {
    std::string name;
    OrderedJson shown, callable, deferred;  // OpenAI's tool objects; null: the tool is not of this kind
    bool told = false;                      // true: the conversation's text has the definition
  };

  void ReadTool(const JsonObject& tool, bool defers);
  bool LeavesOut(const JsonObject& tool, const std::string& type);
  void CountFixed(const JsonObject& tool, const std::string& type);
  Entry* Find(const std::string& name);
  Entry& AddEntry(Entry entry);

  std::vector<Entry> entries_;
  std::map<std::string, size_t> places_;  // index in entries_ by tool name; a client may defer thousands of tools
  std::set<std::string> of_provider_;     // names of tools that are left out
  int num_fixed_ = 0;                     // tools whose definition is this server's, not the client's
};

}  // namespace quire
