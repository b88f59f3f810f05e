#pragma once

#include <set>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "comm/base/types.h"
#include "comm/model/formats/gguf.h"

namespace quire {

/// Reads one object of config.json and records which keys were read. Error messages name the file and the key.
class HfConfig {
 public:
  /// `json` must outlive this object.
  HfConfig(const Json& json, std::string path);

  bool Has(const char* key) const;  // returns false for null, too
  int64_t Count(const char* key) const;
  int64_t Count(const char* key, int64_t otherwise) const { return Has(key) ? Count(key) : otherwise; }
  double Real(const char* key, double otherwise) const;
  /// Returns the number under `key`; `otherwise` when the key is missing, and 0 when its value is null.
  double RealOrNull(const char* key, double otherwise) const;
  bool Flag(const char* key, bool otherwise = false) const;
  std::string Text(const char* key, const std::string& otherwise) const;
  std::vector<std::string> Texts(const char* key) const;  // one text or a list of texts; empty when the key is missing
  std::vector<double> Reals(const char* key) const;       // empty when the key is missing
  /// Returns the list of a number for each of `layers` layers; empty when the key is missing.
  std::vector<double> RealsOfLayers(const char* key, size_t layers) const;
  std::vector<TokenId> TokenIds(const char* key) const;   // one id or a list of ids; empty when the key is missing
  const Json& At(const char* key) const;

  const std::string& path() const { return path_; }
  const Json& json() const { return json_; }
  bool WasRead(const char* key) const { return read_.contains(key); }

  /// Throws Error for the first key that changes the computation, has a value other than its neutral value, and was not
  /// read.
  void RefuseWhatNobodyRead() const;
  /// Throws Error for any key that was not read.
  void RefuseOtherKeys() const;

 private:
  const Json& json_;
  std::string path_;
  mutable std::set<std::string, std::less<>> read_;
};

/// Reads a GGUF file's metadata under its architecture's prefix, in the same way as HfConfig.
class GgufConfig {
 public:
  GgufConfig(const GgufFile& gguf, std::string architecture);

  bool Has(const char* key) const;
  int64_t Count(const char* key) const;
  int64_t Count(const char* key, int64_t otherwise) const { return Has(key) ? Count(key) : otherwise; }
  double Real(const char* key) const;
  double Real(const char* key, double otherwise) const { return Has(key) ? Real(key) : otherwise; }
  bool Flag(const char* key, bool otherwise) const { return Has(key) ? gguf_.Get<bool>(Full(key)) : otherwise; }
  std::string Text(const char* key, const std::string& otherwise) const;
  std::vector<int64_t> Counts(const char* key) const;  // a list; missing: empty
  bool IsList(const char* key) const;                  // true for a list of integers

  const GgufFile& file() const { return gguf_; }
  const std::string& path() const { return gguf_.path; }

  void RefuseWhatNobodyRead() const;

 private:
  std::string Full(const char* key) const;

  const GgufFile& gguf_;
  std::string prefix_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace quire
