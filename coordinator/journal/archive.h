#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/base/error.h"

namespace quire {

/// Writes values into records of the step journal. A class lists its members once, for both directions, in `template
/// <class Archive> void Transfer(Archive&)`. Trivially copyable structs are copied as bytes. Only the same version of
/// the program can read the bytes. The journal checks the version.
class ArchiveWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (Put(values), ...);
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  void Raw(const void* data, size_t size) {
    const size_t end = bytes_.size();
    bytes_.resize(end + size);
    if (size > 0) std::memcpy(bytes_.data() + end, data, size);
  }
  void Count(size_t count) {
    const auto value = static_cast<uint64_t>(count);
    Raw(&value, sizeof(value));
  }
  template <class List>
  void PutList(const List& list) {
    Count(list.size());
    for (const auto& item : list) Put(item);
  }

  template <class T>
  void Put(const T& value) {
    if constexpr (requires(T & t) { t.Transfer(*this); }) {
      const_cast<T&>(value).Transfer(*this);  // the writer only reads
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      Raw(&value, sizeof(T));
    }
  }
  void Put(const std::string& text) {
    Count(text.size());
    Raw(text.data(), text.size());
  }
  template <class T>
  void Put(const std::vector<T>& list) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      Count(list.size());
      Raw(list.data(), list.size() * sizeof(T));
    } else {
      PutList(list);
    }
  }
  template <class T>
  void Put(const std::deque<T>& list) {
    PutList(list);
  }
  template <class K, class V>
  void Put(const std::map<K, V>& map) {
    PutList(map);
  }
  template <class A, class B>
  void Put(const std::pair<A, B>& pair) {
    (*this)(pair.first, pair.second);
  }

  std::vector<std::byte> bytes_;
};

/// Reads values that an ArchiveWriter has written. Throws Error when the bytes end too early, or when a count exceeds
/// the number of bytes that are left.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (Get(values), ...);
  }
  template <class T>
  T Next() {
    T value{};
    Get(value);
    return value;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  void Raw(void* out, size_t size) {
    if (size > bytes_.size()) Fail("journal: a record is too short");
    if (size > 0) std::memcpy(out, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  size_t Count() {
    uint64_t count = 0;
    Raw(&count, sizeof(count));
    if (count > bytes_.size()) Fail("journal: a record claims {} items in {} bytes", count, bytes_.size());
    return static_cast<size_t>(count);
  }

  template <class T>
  void Get(T& value) {
    if constexpr (requires { value.Transfer(*this); }) {
      value.Transfer(*this);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      Raw(&value, sizeof(T));
    }
  }
  void Get(std::string& text) {
    text.resize(Count());
    Raw(text.data(), text.size());
  }
  template <class T>
  void Get(std::vector<T>& list) {
    const size_t count = Count();
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (count * sizeof(T) > bytes_.size()) Fail("journal: a record is too short");
      list.resize(count);
      Raw(list.data(), count * sizeof(T));
    } else {
      list.clear();
      for (size_t i = 0; i < count; ++i) Get(list.emplace_back());
    }
  }
  template <class T>
  void Get(std::deque<T>& list) {
    list.clear();
    for (size_t count = Count(); count > 0; --count) Get(list.emplace_back());
  }
  template <class K, class V>
  void Get(std::map<K, V>& map) {
    map.clear();
    for (size_t count = Count(); count > 0; --count) {
      std::pair<K, V> item;
      Get(item);
      map.insert(std::move(item));
    }
  }
  template <class A, class B>
  void Get(std::pair<A, B>& pair) {
    (*this)(pair.first, pair.second);
  }

  std::span<const std::byte> bytes_;
};

}  // namespace quire
