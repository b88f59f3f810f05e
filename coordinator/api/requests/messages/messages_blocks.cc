#include "coordinator/api/requests/messages/messages_blocks.h"

#include <utility>

#include "comm/base/exact_json.h"

namespace quire {

namespace {

std::string TextBlock(const JsonObject& block) {
  block.KnowOnly({"type", "text", "cache_control", "citations"});
  if (const OrderedJson* citations = block.Find("citations"); citations != nullptr && !citations->empty())
    block.Refuse("citations", "is not supported by this server; leave it out");
  return block.Text("text");
}

/// Throws ApiError for a block that enables citations, because this server's answers have no citations.
void RefuseCitations(const JsonObject& block) {
  if (!block.Has("citations")) return;
  const JsonObject citations = block.Object("citations");
  citations.KnowOnly({"enabled"});
  if (citations.Flag("enabled", false))
    citations.Refuse("enabled", "must be false: answers of this server cite no places");
}

/// Returns a line "name: value" for a document's head; empty when the block has no such member.
std::string Headed(const JsonObject& block, const char* name) {
  const auto text = block.OptionalText(name);
  return text ? std::string(name) + ": " + *text + "\n" : "";
}

std::string Document(const JsonObject& block, MessagesTools& tools) {
  block.KnowOnly({"type", "source", "title", "context", "citations", "cache_control"});
  RefuseCitations(block);
  const JsonObject source = block.Object("source");
  const std::string type = source.Text("type");
  std::string text;
  if (type == "text") {
    source.KnowOnly({"type", "media_type", "data"});
    if (source.OptionalText("media_type").value_or("text/plain") != "text/plain")
      source.Refuse("media_type", "must be text/plain");
    text = source.Text("data");
  } else if (type == "content") {
    source.KnowOnly({"type", "content"});
    text = WordsOf(source, "content", tools);
  } else {
    source.Refuse("type", "is " + type.substr(0, 50) +
                              "; this server takes documents of the types text and content: send its text");
  }
  return "<document>\n" + Headed(block, "title") + Headed(block, "context") + text + "\n</document>\n";
}

std::string SearchResult(const JsonObject& block, MessagesTools& tools) {
  block.KnowOnly({"type", "source", "title", "content", "citations", "cache_control"});
  RefuseCitations(block);
  for (const char* name : {"source", "title"}) (void)block.Text(name);
  return "<search_result>\n" + Headed(block, "title") + Headed(block, "source") + WordsOf(block, "content", tools) +
         "\n</search_result>\n";
}

/// Removes the billing line with which Claude Code begins its system text.
std::string WithoutBillingLine(std::string text) {
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  const size_t end = text.find('\n');
  return end == std::string::npos ? "" : text.substr(end + 1);
}

}  // namespace

std::string WordsOfBlock(const JsonObject& block, MessagesTools& tools) {
  const std::string type = block.Text("type");
  if (type == "text") return TextBlock(block);
  if (type == "document") return Document(block, tools);
  if (type == "search_result") return SearchResult(block, tools);
  if (type == "tool_reference") {
    block.KnowOnly({"type", "tool_name", "cache_control"});
    return tools.Load(block.Text("tool_name"));
  }
  block.Refuse(
      "type", "is " + type.substr(0, 50) + ", which is not supported here; this server takes texts only: leave it out");
}

std::string WordsOf(const JsonObject& holder, const char* name, MessagesTools& tools) {
  if (!holder.Has(name)) return "";
  return holder.JoinedText(name, [&](const JsonObject& block) { return WordsOfBlock(block, tools); });
}

std::string WordsOfProviderResult(const JsonObject& block, MessagesTools& tools) {
  block.KnowOnly({"type", "tool_use_id", "content", "is_error", "cache_control", "caller"});
  const OrderedJson* content = block.Find("content");
  if (content == nullptr) return "";
  if (block.Text("type") == "mcp_tool_result") return WordsOf(block, "content", tools);
  const bool searched =
      content->is_object() && content->value("type", OrderedJson()) == "tool_search_tool_search_result";
  if (!searched) return content->is_string() ? content->get<std::string>() : DumpExactJson(*content);
  std::string text;
  block.Object("content").ForEach("tool_references",
                                  [&](const JsonObject& found) { text += WordsOfBlock(found, tools); });
  return text;
}

std::string WordsOfSystem(const JsonObject& body, MessagesTools& tools) {
  if (!body.Has("system")) return "";
  const OrderedJson* system = body.Find("system");
  if (system->is_string()) return WithoutBillingLine(system->get<std::string>());
  std::string text;
  body.ForEach("system", [&](const JsonObject& block) { text += WithoutBillingLine(WordsOfBlock(block, tools)); });
  return text;
}

}  // namespace quire
