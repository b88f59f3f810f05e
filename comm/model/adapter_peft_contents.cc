// Makes an adapter's contents from the sorted tensors of a PEFT directory, and checks that nothing is missing.
#include <algorithm>
#include <set>
#include <tuple>

#include "comm/base/error.h"
#include "comm/model/adapter_peft.h"
#include "comm/model/adapter_readers.h"
#include "comm/model/model_files.h"

namespace quire {

namespace {

constexpr const char *kBaseLayerEnd = ".base_layer", *kWeightEnd = ".weight", *kConfigFile = "adapter_config.json";

std::string FullName(const std::string& module, const char* end) { return "base_model.model." + module + end; }

std::string WithoutEnd(const std::string& name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : name;
}

/// Returns `count` rows of a tensor, from row `first` on, as a tensor.
Tensor RowsOf(const Tensor& tensor, int64_t first, int64_t count) {
  const auto bytes = tensor.data.size() / static_cast<size_t>(std::max<int64_t>(1, tensor.rows()));
  return {tensor.type,
          {count, tensor.cols()},
          tensor.data.subspan(static_cast<size_t>(first) * bytes, static_cast<size_t>(count) * bytes)};
}

/// True for weights that form no linear modules in some versions of HF. So it is not certain that a configuration that
/// targets modules means these weights, too.
bool MayBeLeftOut(Role role) { return role == Role::kRouter || role == Role::kSharedScale || IsOfExpert(role); }

}  // namespace

AdapterContents PeftReader::Read(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) Take(name, tensor);
  if (tensors.empty()) Fail("{}: holds no tensors", file_);
  FinishEmbedding();
  ShareEmbedding();
  for (const auto& [of_base, pair] : pairs_) AddMatrix(of_base, pair);
  for (const auto& [module, pair] : stacks_) AddExperts(module, pair);
  CheckTables();
  CheckParameters();
  CheckComplete();
  return std::move(contents_);
}

float PeftReader::ScaleOf(const std::string& name, const std::string& tensor) const {
  return FactorOf(file_, tensor, config_.ScaleOf(name), "lora_alpha");
}

void PeftReader::AddMatrix(const std::string& of_base, const Pair& pair) {
  if (of_base == head_) {
    const int64_t rows = layout_.vocab_size;
    return Add({0, rows, layout_.hidden_size, kAllExperts, false, {{Role::kHead, {0, rows, rows, rows}}}}, pair.module,
               pair);
  }
  Add(known_.at(of_base), config_.Targets(pair.module) ? pair.module : pair.module + kWeightEnd, pair);
}

void PeftReader::AddExperts(const std::string& module, const Pair& pair) {
  const std::string experts = WithoutEnd(module, kBaseLayerEnd), name = FullName(module, ".lora_A.weight");
  const std::string in = experts + (layout_.gated_mlp ? ".gate_up_proj" : ".up_proj"), down = experts + ".down_proj";
  // PEFT wraps a module once for each of its parameters. The first parameter, which holds the experts' gate and up
  // matrices, is innermost.
  const bool inner = module != experts;
  if (inner && !stacks_.contains(experts)) Refuse(name, "its module has no tensors without base_layer");
  const bool downs = !inner && (stacks_.contains(experts + kBaseLayerEnd) || config_.TargetsParameter(down));
  const std::string& parameter = downs ? down : in;
  if (!config_.TargetsParameter(parameter)) Refuse(name, fmt::format("{} targets no {}", kConfigFile, parameter));
  const auto layer = LayerNumberIn(experts);
  const auto base = layer ? StackedExperts(layout_, *layer, downs) : std::nullopt;
  if (!base) Refuse(name, "the base model has no such matrix");
  for (const AdaptedWeight& weight : base->weights) roles_.insert(weight.role);
  parameters_.insert(parameter);
  Add(*base, parameter, pair);
}

void PeftReader::Add(const BaseMatrix& base, const std::string& config_name, const Pair& pair) {
  const std::string a = FullName(pair.module, ".lora_A.weight"), b = FullName(pair.module, ".lora_B.weight");
  if (pair.a.shape.empty() || pair.b.shape.empty()) Refuse(pair.a.shape.empty() ? b : a, "its other half is missing");
  const int64_t rank = config_.RankOf(config_name), count = base.stacked ? layout_.mixture.experts : 1;
  CheckShape(a, pair.a, {rank * count, base.cols});
  CheckShape(b, pair.b, {base.rows, rank * count});
  const float scale = ScaleOf(config_name, a);
  for (int64_t i = 0; i < count; ++i) {
    contents_.matrices.push_back({.module = pair.module,
                                  .layer = base.layer,
                                  .expert = base.stacked ? i : base.expert,
                                  .weights = base.weights,
                                  .scale = scale,
                                  .a = RowsOf(pair.a, i * rank, rank),
                                  .b = pair.b,
                                  .b_first = i,
                                  .b_step = count});
  }
}

void PeftReader::FinishEmbedding() {
  AdapterTable& table = contents_.embedding;
  if (embedding_module_.empty()) return;
  const std::string a = FullName(embedding_module_, ".lora_embedding_A"),
                    b = FullName(embedding_module_, ".lora_embedding_B");
  if (table.a.shape.empty() || table.b.shape.empty())
    Refuse(table.a.shape.empty() ? b : a, "its other half is missing");
  const int64_t rank = config_.RankOf(embedding_module_);
  CheckShape(a, table.a, {rank, layout_.vocab_size});
  CheckShape(b, table.b, {layout_.hidden_size, rank});
  table.scale = ScaleOf(embedding_module_, a);
}

void PeftReader::ShareEmbedding() {
  if (!layout_.tied_embeddings || head_.empty()) return;
  const AdapterTable& embedding = contents_.embedding;
  AdapterTable& head = contents_.head;
  if (base_replaced_ && !head_replaced_) head.whole = embedding.whole;
  if (head.tokens.empty()) {
    head.tokens = embedding.tokens;
    head.rows = embedding.rows;
  }
}

void PeftReader::CheckTokens(const std::string& module, const AdapterTable& table) const {
  std::vector<TokenId> tokens = table.tokens;
  std::ranges::sort(tokens);
  const auto same = std::ranges::adjacent_find(tokens);
  if (same != tokens.end()) Fail("{}: {} names token {} of {} twice", file_, kConfigFile, *same, module);
  if (!tokens.empty() && tokens.back() >= layout_.vocab_size)
    Fail("{}: {} names token {} of {}, which has {}", file_, kConfigFile, tokens.back(), module, layout_.vocab_size);
}

/// Checks the embedding and the head. Refuses a file without rows or weights that the configuration names. Also refuses
/// a configuration that names a token twice or a token beyond the vocabulary.
void PeftReader::CheckTables() const {
  const std::string embedding = WithoutEnd(embedding_, kWeightEnd), head = WithoutEnd(head_, kWeightEnd);
  CheckTokens(embedding, contents_.embedding);
  CheckTokens(head, contents_.head);
  const auto lacks = [&](const std::string& module, const char* key) {
    Fail("{}: {} names {} ({}), of which the file has no tensors", file_, kConfigFile, module, key);
  };
  for (const auto& [key, tokens] : config_.tokens()) {
    const bool of_head = !key.empty() && AdapterConfig::Ends(key, head);
    const AdapterTable& table = of_head ? contents_.head : contents_.embedding;
    if (table.rows.shape.empty() && !tokens.empty()) lacks(key.empty() ? embedding : key, "trainable_token_indices");
  }
  if (renamed_) return;
  if (config_.Replaces(embedding) && !embedding_replaced_) lacks(embedding, "modules_to_save");
  if (!head.empty() && config_.Replaces(head) && !head_replaced_) lacks(head, "modules_to_save");
  if (config_.targets_all()) return;
  if (config_.Targets(embedding) && embedding_module_.empty()) lacks(embedding, "target_modules");
  if (!head.empty() && config_.Targets(head) && !pairs_.contains(head_)) lacks(head, "target_modules");
}

/// Refuses a file that lacks, in some layer, a parameter that the configuration targets.
void PeftReader::CheckParameters() const {
  for (const std::string& wanted : config_.parameters()) {
    const auto is_wanted = [&](const std::string& name) { return AdapterConfig::Ends(wanted, name); };
    const auto first = std::ranges::find_if(parameters_, is_wanted);
    if (first == parameters_.end())
      Fail("{}: {} targets the parameter {} (target_parameters), of which the file has no tensors", file_, kConfigFile,
           wanted);
    // Every other layer with a mixture of experts must have the parameter, too.
    const std::string number = std::to_string(LayerNumberIn(*first).value_or(-1));
    const size_t place = first->find("." + number + ".");
    if (place == std::string::npos || !first->ends_with("_proj")) continue;
    for (int64_t layer = 0; layer < layout_.num_layers(); ++layer) {
      std::string name = *first;
      name.replace(place + 1, number.size(), std::to_string(layer));
      if (layout_.layers[static_cast<size_t>(layer)].mixture && is_wanted(name) && !parameters_.contains(name))
        Fail("{}: {} targets the parameter {} (target_parameters), of which the file has no tensors", file_,
             kConfigFile, name);
    }
  }
}

/// Refuses a file without a module that the configuration names, because part of the adapter is missing. Files whose
/// names differ from the family's list of weights, such as files of multimodal models, are not checked.
void PeftReader::CheckComplete() const {
  if (renamed_) return;
  std::set<std::tuple<int64_t, Role, int64_t>> changed;
  for (const AdapterMatrix& matrix : contents_.matrices) {
    for (const AdaptedWeight& weight : matrix.weights) changed.emplace(matrix.layer, weight.role, matrix.expert);
  }
  // The file may have an expert's matrix under its other name, stacked or separate.
  const auto is_there = [&](const BaseMatrix& matrix) {
    return changed.contains({matrix.layer, matrix.weights.front().role, matrix.stacked ? 0 : matrix.expert});
  };
  for (const auto& [name, matrix] : known_) {
    if (!matrix.takes_adapters || is_there(matrix) || !name.ends_with(kWeightEnd)) continue;
    const Role role = matrix.weights.front().role;
    if (MayBeLeftOut(role) && !roles_.contains(role)) continue;
    const std::string module = WithoutEnd(name, kWeightEnd);
    if (MayBeLeftOut(role) && config_.targets_all() && !config_.TargetsParameter(name)) continue;
    if (config_.TargetsParameter(name) || config_.Targets(module))
      Fail("{}: {} targets {}, of which the file has no tensors", file_, kConfigFile, module);
  }
}

}  // namespace quire
