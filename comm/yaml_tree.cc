#include "comm/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <sstream>
#include <utility>

#include "comm/error.h"

namespace quire {

namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxDepth = 16;

/// Builds the tree from parser events, so that nothing the parser would quietly accept gets through.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  YamlNode root;
  bool seen_root = false;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(mark, anchor, "", YamlNode::Kind::kScalar, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Refuse(mark.line + 1, "aliases are not allowed"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Add(mark, anchor, tag, YamlNode::Kind::kScalar, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Add(mark, anchor, tag, YamlNode::Kind::kSequence, ""), mark);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Add(mark, anchor, tag, YamlNode::Kind::kMapping, ""), mark);
  }
  void OnMapEnd() override {
    open_.pop_back();
    key_.reset();
  }

 private:
  [[noreturn]] void Refuse(int line, const std::string& reason) { Fail("{}:{}: {}", file_, line, reason); }

  void Open(YamlNode* node, const YAML::Mark& mark) {
    if (open_.size() >= kMaxDepth) Refuse(mark.line + 1, "nested too deep");
    open_.push_back(node);
  }

  YamlNode* Add(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag, YamlNode::Kind kind,
                const std::string& value) {
    const int line = mark.line + 1;
    if (anchor != 0) Refuse(line, "anchors are not allowed");
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(line, "tags are not allowed");
    YamlNode node{kind, line, value, tag == "!", {}, {}};
    if (open_.empty()) {
      if (seen_root) Refuse(line, "a second document");
      seen_root = true;
      root = std::move(node);
      return &root;
    }
    YamlNode& parent = *open_.back();
    if (parent.kind == YamlNode::Kind::kSequence) return &parent.items.emplace_back(std::move(node));
    if (!key_) {
      if (kind != YamlNode::Kind::kScalar) Refuse(line, "a key must be plain text");
      if (parent.Find(value) != nullptr) Refuse(line, fmt::format("key \"{}\" is given twice", value));
      key_ = value;
      return nullptr;
    }
    parent.entries.push_back({*std::exchange(key_, std::nullopt), std::move(node)});
    return &parent.entries.back().node;
  }

  std::string file_;
  std::vector<YamlNode*> open_;
  std::optional<std::string> key_;
};

}  // namespace

const YamlNode* YamlNode::Find(const std::string& key) const {
  for (const auto& [name, node] : entries) {
    if (name == key) return &node;
  }
  return nullptr;
}

YamlNode ParseYaml(const std::string& text, const std::string& file) {
  if (text.size() > kMaxBytes) Fail("{}:1: {} bytes, at most {} are allowed", file, text.size(), kMaxBytes);
  TreeBuilder builder(file);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    Fail("{}:{}: {}", file, error.mark.line + 1, error.msg);
  }
  if (!builder.seen_root) Fail("{}:1: the file is empty", file);
  return std::move(builder.root);
}

}  // namespace quire
