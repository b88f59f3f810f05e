#pragma once

#include <set>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "comm/base/types.h"
#include "comm/model/formats/gguf.h"

namespace quire {

/// An object of config.json, whose errors name the file and the key, and which remembers what was asked for.
class HfConfig {
 public:
  /// `json` outlives it.
  HfConfig(const Json& json, std::string path);

  bool Has(const char* key) const;  // and is not null
  int64_t Count(const char* key) const;
  int64_t Count(const char* key, int64_t otherwise) const { return Has(key) ? Count(key) : otherwise; }
  double Real(const char* key, double otherwise) const;
  /// `otherwise` where the key is missing, but 0 where it is null.
  double RealOrNull(const char* key, double otherwise) const;
  bool Flag(const char* key, bool otherwise = false) const;
  std::string Text(const char* key, const std::string& otherwise) const;
  std::vector<std::string> Texts(const char* key) const;  // none: an empty list
  std::vector<double> Reals(const char* key) const;       // none: an empty list
  std::vector<TokenId> TokenIds(const char* key) const;   // one or a list; none: an empty list
  const Json& At(const char* key) const;

  const std::string& path() const { return path_; }
  const Json& json() const { return json_; }
  bool WasRead(const char* key) const { return read_.contains(key); }

  /// Throws Error naming the first key that is known to change what a model computes, says something else than what
  /// leaves it as it is, and that nobody has asked for.
  void RefuseWhatNobodyRead() const;
  /// Throws Error naming a key that nobody has asked for, if there is one.
  void RefuseOtherKeys() const;

 private:
  const Json& json_;
  std::string path_;
  mutable std::set<std::string, std::less<>> read_;
};

/// A GGUF file's metadata under its architecture's prefix, likewise.
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
  std::vector<int64_t> Counts(const char* key) const;  // of a list; none: an empty one
  bool IsList(const char* key) const;                  // of integers

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
