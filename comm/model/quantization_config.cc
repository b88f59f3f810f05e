#include "comm/model/quantization_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

constexpr int64_t kMostBlock = 1 << 20;

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Throws Error unless the key is missing or has one of these values, in upper or lower case.
void RequireText(const HfConfig& config, const char* key, std::initializer_list<std::string_view> known) {
  const std::string value = Lower(config.Text(key, std::string(*known.begin())));
  if (std::ranges::find(known, value) != known.end()) return;
  Fail("{}: {} \"{}\" is not supported; supported: {}", config.path(), key, value.substr(0, 100),
       fmt::join(known, ", "));
}

int64_t GroupSize(const HfConfig& config) {
  const int64_t group = config.Count("group_size", -1);
  if (group != -1 && (group < 1 || group > kMostBlock))
    Fail("{}: group_size = {} must be -1 or a number of columns", config.path(), group);
  return group;
}

int Bits(const HfConfig& config, std::initializer_list<int64_t> known) {
  const int64_t bits = config.Count("bits");
  if (std::ranges::find(known, bits) == known.end())
    Fail("{}: bits = {} is not supported; supported: {}", config.path(), bits, fmt::join(known, ", "));
  return static_cast<int>(bits);
}

StoredQuants Gptq(const HfConfig& config) {
  for (const char* key : {"checkpoint_format", "format"}) RequireText(config, key, {"gptq", "gptq_v2"});
  RequireText(config, "pack_dtype", {"int32"});
  if (config.Flag("is_marlin_format")) Fail("{}: is_marlin_format is not supported", config.path());
  if (config.Has("dynamic")) {
    // Keys that begin with "-:" name modules that are not quantised; the tensors show this, too. Other keys give some
    // modules different settings and are refused.
    for (const auto& [pattern, settings] : config.At("dynamic").items()) {
      if (!pattern.starts_with("-:"))
        Fail("{}: dynamic \"{}\" is not supported: all quantised matrices must be alike", config.path(),
             pattern.substr(0, 100));
    }
  }
  const std::string version = Lower(config.Text("checkpoint_format", config.Text("format", "gptq")));
  return {.method = StoredQuants::Method::kGptq,
          .bits = Bits(config, {4, 8}),
          .group = GroupSize(config),
          .zero_offset = version == "gptq" ? 1 : 0};
}

StoredQuants Awq(const HfConfig& config) {
  RequireText(config, "version", {"gemm"});
  RequireText(config, "backend", {"autoawq"});
  return {.method = StoredQuants::Method::kAwq, .bits = Bits(config, {4}), .group = GroupSize(config)};
}

/// Throws Error when AutoRound's extra_config gives a quantised module other settings than the other modules.
void RequireAlike(const HfConfig& config) {
  if (!config.Has("extra_config")) return;
  const int64_t bits = config.Count("bits"), group = GroupSize(config);
  for (const auto& [module, settings] : config.At("extra_config").items()) {
    const HfConfig own(settings, config.path() + ": extra_config: " + module.substr(0, 100));
    const int64_t its_bits = own.Count("bits", bits);
    const bool plain = its_bits >= 16;
    if (plain || (its_bits == bits && own.Count("group_size", group) == group)) continue;
    Fail("{}: bits = {} in groups of {} is not supported: all quantised matrices must be alike", own.path(), its_bits,
         own.Count("group_size", group));
  }
}

/// Reads AutoRound's format. Its matrices are stored as those of GPTQ or of AWQ: packing_format or, in older files,
/// backend says which.
StoredQuants AutoRound(const HfConfig& config) {
  RequireText(config, "data_type", {"int"});
  RequireAlike(config);
  const std::string said = Lower(config.Text("packing_format", config.Text("backend", "auto")));
  const auto is = [&](std::string_view packing) {
    const std::string whole = "auto_round:" + std::string(packing);
    return said == whole || said.starts_with(whole + ":");
  };
  if (said == "auto" || is("auto_gptq") || is("gptq")) {
    return {.method = StoredQuants::Method::kGptq,
            .bits = Bits(config, {4, 8}),
            .group = GroupSize(config),
            .zero_offset = 1};
  }
  if (is("auto_awq") || is("awq"))
    return {.method = StoredQuants::Method::kAwq, .bits = Bits(config, {4}), .group = GroupSize(config)};
  Fail("{}: packing_format \"{}\" is not supported; supported: auto_round:auto_gptq, auto_round:auto_awq",
       config.path(), said.substr(0, 100));
}

void ReadBlocks(const HfConfig& config, const char* key, StoredQuants& quants) {
  if (!config.Has(key)) return;
  const std::vector<double> sizes = config.Reals(key);
  const auto is_size = [](double size) {
    return size >= 1 && size <= kMostBlock && size == static_cast<double>(static_cast<int64_t>(size));
  };
  if (sizes.size() != 2 || !std::ranges::all_of(sizes, is_size))
    Fail("{}: {} must be numbers of rows and of columns", config.path(), key);
  const auto rows = static_cast<int64_t>(sizes[0]), cols = static_cast<int64_t>(sizes[1]);
  if (quants.block_rows != 0 && (quants.block_rows != rows || quants.block_cols != cols))
    Fail("{}: {} must be the same for all matrices", config.path(), key);
  quants.block_rows = rows;
  quants.block_cols = cols;
}

StoredQuants Fp8(const HfConfig& config) {
  RequireText(config, "fmt", {"e4m3", "float8_e4m3fn"});
  StoredQuants quants{.method = StoredQuants::Method::kFloat8};
  ReadBlocks(config, "weight_block_size", quants);
  return quants;
}

StoredQuants CompressedTensors(const HfConfig& config) {
  RequireText(config, "format",
              {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision", "dense",
               "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"});
  // quantization_status is the state of the tool that wrote the file. The tensors themselves show whether matrices are
  // compressed.
  RequireText(config, "quantization_status", {"compressed", "frozen"});
  if (config.Has("sparsity_config")) {
    const std::string path = config.path() + ": sparsity_config";
    RequireText(HfConfig(config.At("sparsity_config"), path), "format", {"dense"});
  }
  if (config.Has("transform_config") && !config.At("transform_config").empty())
    Fail("{}: transform_config is not supported: rotations of weights are not undone", config.path());
  StoredQuants quants{.method = StoredQuants::Method::kCompressedTensors};
  if (!config.Has("config_groups")) return quants;
  for (const auto& [name, group] : config.At("config_groups").items()) {
    const HfConfig of_group(group, config.path() + ": config_groups");
    if (!of_group.Has("weights")) continue;
    ReadBlocks(HfConfig(of_group.At("weights"), of_group.path() + ": weights"), "block_structure", quants);
  }
  return quants;
}

/// Reads NVIDIA's ModelOpt. The tensors show the format of each matrix. The file's algorithm must be one for which the
/// tensors show all settings of a matrix.
StoredQuants ModelOpt(const HfConfig& config) {
  RequireText(config, "quant_algo", {"fp8", "nvfp4", "mxfp8", "w4a16_nvfp4", "mixed_precision"});
  return {.method = StoredQuants::Method::kModelOpt};
}

StoredQuants BitsAndBytes(const HfConfig& config) {
  RequireText(config, "bnb_4bit_quant_type", {"nf4", "fp4"});
  return {.method = StoredQuants::Method::kBitsAndBytes};
}

struct Reader {
  const char* method;
  StoredQuants (*read)(const HfConfig&);
};
constexpr std::array<Reader, 10> kReaders = {{{"gptq", Gptq},
                                              {"awq", Awq},
                                              {"fp8", Fp8},
                                              {"fbgemm_fp8", Fp8},
                                              {"mxfp8", Fp8},
                                              {"modelopt", ModelOpt},
                                              {"bitsandbytes", BitsAndBytes},
                                              {"compressed-tensors", CompressedTensors},
                                              {"auto-round", AutoRound},
                                              {"intel/auto-round", AutoRound}}};

}  // namespace

StoredQuants StoredQuantsFromHf(const HfConfig& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (!config.Has(key)) continue;
    const HfConfig quants(config.At(key), config.path() + ": " + key);
    const std::string method = quants.Text("quant_method", "");
    const auto reader = std::ranges::find(kReaders, std::string_view(method), &Reader::method);
    if (reader != kReaders.end()) return reader->read(quants);
    std::vector<const char*> known;
    for (const Reader& each : kReaders) known.push_back(each.method);
    Fail(
        "{}: quant_method \"{}\" is not supported for this architecture; supported: {}; take the model in one of "
        "them, as GGUF, or unquantised with --quantization",
        quants.path(), method.substr(0, 100), fmt::join(known, ", "));
  }
  return {};
}

}  // namespace quire
