#pragma once

#include <string>
#include <vector>

#include "comm/schema/plain_schema.h"

namespace quire {

/// Remarks about a schema. A place is the path of a keyword, for example "properties.a.maxLength".
struct SchemaRemarks {
  struct Remark {
    std::string place, why;
  };
  std::vector<Remark> wrong;    // errors: not a valid schema
  std::vector<Remark> unkept;   // keywords that a grammar cannot enforce, so an answer may break them
  std::vector<Remark> unknown;  // words that are no constraints, or that no standard defines
};

/// Turns a schema with references, alternatives and combinations into plain schemas. Ignores keywords that cannot be
/// enforced; Look makes remarks about them.
class SchemaReader {
 public:
  /// References are resolved in `root`, which must outlive the reader. `remarks` may be null.
  explicit SchemaReader(const OrderedJson& root, SchemaRemarks* remarks = nullptr) : root_(root), remarks_(remarks) {}

  /// Returns plain schemas such that a value is accepted when one of them accepts it. An empty result accepts no value.
  std::vector<PlainSchema> Alternatives(const OrderedJson& schema) const;

  /// Adds the remarks about the schema, at the place `where`, and about all schemas inside it to the constructor's
  /// `remarks`.
  void Look(const OrderedJson& schema, const std::string& where) const;

  /// Returns the schema in `root` to which a reference leads; null when there is none.
  const OrderedJson* Find(const std::string& reference) const;

 private:
  std::vector<PlainSchema> Read(const OrderedJson& schema, const std::string& where, int depth) const;
  PlainSchema ReadPlain(const OrderedJson& schema, const std::string& where) const;
  void LookForOverlaps(const OrderedJson& options, const std::string& where) const;

  const OrderedJson& root_;
  SchemaRemarks* remarks_;
};

/// Returns the path of a keyword in the schema whose path is `where`.
std::string PlaceOf(const std::string& where, const std::string& keyword);

/// The most alternatives into which a schema may unfold.
inline constexpr size_t kMostAlternatives = 256;

}  // namespace quire
