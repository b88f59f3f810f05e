#pragma once

#include <string>
#include <vector>

#include "comm/schema/plain_schema.h"

namespace quire {

/// What a reader has to say of a schema. A place is where a keyword stands: "properties.a.maxLength".
struct SchemaRemarks {
  struct Remark {
    std::string place, why;
  };
  std::vector<Remark> wrong;    // what is no schema
  std::vector<Remark> unkept;   // keywords that an answer cannot be kept to, and may break
  std::vector<Remark> unknown;  // words that ask nothing of a value, or of which nobody knows that they do
};

/// Reads the parts of one schema: references, alternatives and combinations become plain schemas. A keyword that
/// cannot be kept to is remarked and otherwise passed over.
class SchemaReader {
 public:
  /// root: what references lead into; it must outlive the reader. remarks: null: nobody listens.
  explicit SchemaReader(const OrderedJson& root, SchemaRemarks* remarks = nullptr) : root_(root), remarks_(remarks) {}

  /// A value is accepted by the schema when one of these accepts it; none: no value is.
  std::vector<PlainSchema> Alternatives(const OrderedJson& schema) const;

  /// Remarks of the whole schema and of all inside it.
  void Look(const OrderedJson& schema, const std::string& where) const;

  /// What a reference leads to; null: nothing.
  const OrderedJson* Find(const std::string& reference) const;

 private:
  std::vector<PlainSchema> Read(const OrderedJson& schema, const std::string& where, int depth) const;
  PlainSchema ReadPlain(const OrderedJson& schema, const std::string& where) const;
  void LookForOverlaps(const OrderedJson& options, const std::string& where) const;

  const OrderedJson& root_;
  SchemaRemarks* remarks_;
};

/// A place inside a place.
std::string PlaceOf(const std::string& where, const std::string& keyword);

/// Most alternatives that a schema may come to.
inline constexpr size_t kMostAlternatives = 256;

}  // namespace quire
