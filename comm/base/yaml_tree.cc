#include "comm/base/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <sstream>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

// The limits of a document are several times what real files need: a topology file of 1,000 nodes has 10,000 values and
// keys, and its largest mapping has a few dozen keys.
constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxNodes = 50'000;  // values and keys together
constexpr size_t kMaxKeys = 1000;     // keys of one mapping; each new key is compared with all keys before it

/// Builds the tree from parser events, so that it can refuse constructs that the library would silently accept.
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
    if (++num_nodes_ > kMaxNodes) Refuse(line, fmt::format("more than {} values and keys", kMaxNodes));
    if (anchor != 0) Refuse(line, "anchors are not allowed");
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(line, "tags are not allowed");
    YamlNode node{kind, line, value, tag == "!", {}, {}, {}};
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
      if (parent.entries.size() >= kMaxKeys) Refuse(line, fmt::format("more than {} keys in one mapping", kMaxKeys));
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
  size_t num_nodes_ = 0;
};

}  // namespace

const YamlNode* YamlNode::Find(const std::string& key) const {
  for (const auto& [name, node] : entries) {
    if (name == key) return &node;
  }
  return nullptr;
}

YamlNode ParseYaml(const std::string& text, const std::string& file) {
  if (text.size() > kMaxYamlBytes) Fail("{}:1: {} bytes, at most {} are allowed", file, text.size(), kMaxYamlBytes);
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
