// Renames the tensors of HF files to the names of the family's list of weights, and decides by the tensors, not by the
// configuration, whether the output head is a tensor of the file.
#include <algorithm>
#include <set>
#include <string_view>

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "comm/model/model_files.h"

namespace quire {

namespace {

/// Prefixes that files use in place of the prefix in the family's list of weights. Multimodal models have the first
/// three; older and newer files of one model differ in these prefixes. The encoders of RoBERTa and ELECTRA have the
/// last two, and otherwise BERT's names.
constexpr std::string_view kTextBases[] = {"model.language_model.", "language_model.model.", "language_model.",
                                           "roberta.", "electra."};

std::string_view FirstPart(std::string_view name) { return name.substr(0, name.find('.')); }

/// The tensor names that the files of one family use.
struct FamilyNames {
  std::string base;                           // prefix of most names: "model."
  std::set<std::string, std::less<>> inside;  // first parts of names after the base, such as "layers"
  std::set<std::string, std::less<>> beside;  // first parts of names without the base, such as the head's

  explicit FamilyNames(const ModelSpec& spec) {
    ModelSpec untied = spec;
    untied.tied_embeddings = false;
    const std::vector<WeightSpec> weights = WeightsOf(untied);
    const auto embedding = std::ranges::find(weights, Role::kEmbedding, &WeightSpec::role);
    base = std::string(FirstPart(PatternOf(*embedding, Naming::kHf))) + ".";
    for (const WeightSpec& weight : weights) {
      const std::string_view name = PatternOf(weight, Naming::kHf);
      if (name.starts_with(base)) {
        inside.emplace(FirstPart(name.substr(base.size())));
      } else {
        beside.emplace(FirstPart(name));
      }
    }
  }

  bool IsInside(std::string_view rest) const { return inside.contains(FirstPart(rest)); }
  bool IsBeside(std::string_view name) const { return beside.contains(FirstPart(name)); }

  /// Returns the name in the family's list for a tensor's name in the file.
  std::string Of(const std::string& name) const {
    const std::string_view view = name;
    for (const std::string_view text : kTextBases) {
      if (!view.starts_with(text)) continue;
      const std::string_view rest = view.substr(text.size());
      return IsBeside(rest) ? std::string(rest) : base + std::string(rest);
    }
    constexpr std::string_view kModel = "model.";
    if (view.starts_with(base) || IsBeside(view)) return name;
    if (view.starts_with(kModel) && IsInside(view.substr(kModel.size()))) return base + name.substr(kModel.size());
    return IsInside(view) ? base + name : name;  // a base model saved alone has names without the prefix
  }
};

/// True when the first part of a tensor's name, after "model.", contains a word such as "vision" or "audio". Such a
/// tensor belongs to the vision or audio part of the model.
bool IsOfSenses(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(std::string_view("model.").size());
  const std::string_view part = FirstPart(name);
  return std::ranges::any_of(std::initializer_list<std::string_view>{"vision", "visual", "image", "audio", "projector"},
                             [&](std::string_view word) { return part.find(word) != part.npos; });
}

/// True when both tensors have the same type, shape, bytes and scales.
bool AreSame(const Tensor& a, const Tensor& b) {
  return a.type == b.type && a.shape == b.shape && std::ranges::equal(a.data, b.data) &&
         std::ranges::equal(a.scales, b.scales);
}

}  // namespace

std::string ModelFiles::ListNameOf(const std::string& name) const { return FamilyNames(spec_).Of(name); }

void ModelFiles::BringNames() {
  const FamilyNames names(spec_);
  TensorMap brought;
  std::set<std::string> left_out;
  int64_t bytes = 0;
  for (auto& [name, tensor] : tensors_) {
    if (spec_.text_only && IsOfSenses(name)) {
      left_out.emplace(name.substr(0, name.find('.', name.starts_with("model.") ? sizeof("model.") - 1 : 0)));
      bytes += static_cast<int64_t>(tensor.data.size());
      continue;
    }
    const std::string wanted = names.Of(name);
    if (!brought.emplace(wanted, std::move(tensor)).second)
      Fail("{}: tensor {} is there under two names, one of them {}", path_, wanted, name.substr(0, 100));
  }
  tensors_ = std::move(brought);
  if (!spec_.text_only) return;
  notes_.push_back(fmt::format("{}: text only: of the files, {} ({:.1f} MiB) are left out", path_,
                               left_out.empty() ? "no tensors" : fmt::format("{}", fmt::join(left_out, ", ")),
                               static_cast<double>(bytes) / (1 << 20)));
}

void ModelFiles::SettleHead(bool only_embeds) {
  if (!spec_.has_head) return;
  ModelSpec untied = spec_;
  untied.tied_embeddings = false;
  std::string head_name, embedding_name;
  for (const WeightSpec& weight : WeightsOf(untied)) {
    if (weight.role == Role::kHead) head_name = PatternOf(weight, Naming::kHf);
    if (weight.role == Role::kEmbedding) embedding_name = PatternOf(weight, Naming::kHf);
  }
  const auto head = tensors_.find(head_name), embedding = tensors_.find(embedding_name);
  if (head == tensors_.end()) {
    if (spec_.tied_embeddings || !only_embeds) return;
    spec_.tied_embeddings = true;
    spec_.has_head = false;
    notes_.push_back(fmt::format("{}: there is no {}: the model makes embeddings only", path_, head_name));
  } else if (spec_.tied_embeddings && embedding == tensors_.end()) {
    tensors_.emplace(embedding_name, head->second);  // the embedding also serves as the head
  } else if (spec_.tied_embeddings && !AreSame(head->second, embedding->second)) {
    spec_.tied_embeddings = false;
    notes_.push_back(
        fmt::format("{}: the configuration says tie_word_embeddings, and the files have a {} that differs from {}: it "
                    "is taken, as HF does",
                    path_, head_name, embedding_name));
  }
}

}  // namespace quire
