#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Reads the fields of one message in Protocol Buffers' wire format. Never reads beyond the message, whatever lengths
/// it contains.
class ProtobufReader {
 public:
  /// `bytes`: the message, which begins at offset `offset` of the file `path`.
  ProtobufReader(std::string_view bytes, std::string path, size_t offset = 0)
      : bytes_(bytes), path_(std::move(path)), offset_(offset) {}

  class Field {
   public:
    uint32_t number() const { return number_; }
    /// Return the field's value in the type that the message's definition gives the field. Throw Error with the field's
    /// position when the field has another wire type.
    uint64_t Integer() const;
    bool Flag() const { return Integer() != 0; }
    float Float() const;
    std::string_view Bytes() const;
    /// Returns the nested message in the field.
    ProtobufReader Message() const;

   private:
    friend class ProtobufReader;
    enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
    void Expect(Wire wire) const;

    const ProtobufReader* reader_ = nullptr;
    uint32_t number_ = 0;
    Wire wire_ = Wire::kVarint;
    uint64_t integer_ = 0;    // value of kVarint and the fixed types
    std::string_view bytes_;  // value of kBytes
    size_t at_ = 0;           // offset of the field in the message
  };

  /// Returns the next field, which is valid while this reader exists; nullopt at the end of the message. Throws Error
  /// with the position when the bytes are no field.
  std::optional<Field> Next();

 private:
  [[noreturn]] void FailAt(size_t at, const std::string& what) const;
  uint64_t ReadVarint();
  uint64_t ReadFixed(size_t bytes);

  std::string_view bytes_;
  std::string path_;
  size_t offset_;
  size_t at_ = 0;
};

}  // namespace quire
