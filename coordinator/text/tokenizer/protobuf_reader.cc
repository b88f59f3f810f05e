#include "coordinator/text/tokenizer/protobuf_reader.h"

#include <fmt/format.h>

#include <bit>

#include "comm/base/error.h"

namespace quire {

void ProtobufReader::FailAt(size_t at, const std::string& what) const {
  Fail("{}: at byte {}: {}", path_, offset_ + at, what);
}

uint64_t ProtobufReader::ReadVarint() {
  constexpr int kMaxBits = 64, kBitsOfByte = 7;
  uint64_t value = 0;
  for (int shift = 0; shift < kMaxBits; shift += kBitsOfByte) {
    if (at_ == bytes_.size()) FailAt(at_, "the file ends inside a number");
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  FailAt(at_, "a number has more than ten bytes");
}

uint64_t ProtobufReader::ReadFixed(size_t bytes) {
  if (bytes > bytes_.size() - at_) FailAt(at_, "the file ends inside a number");
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes_[at_ + i]);
  at_ += bytes;
  return value;
}

std::optional<ProtobufReader::Field> ProtobufReader::Next() {
  using Wire = Field::Wire;
  if (at_ == bytes_.size()) return std::nullopt;
  Field field;
  field.reader_ = this;
  field.at_ = at_;
  const uint64_t key = ReadVarint();
  if (key >> 3 == 0 || key >> 3 > UINT32_MAX) FailAt(field.at_, "there is no field of that number");
  field.number_ = static_cast<uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      field.integer_ = ReadVarint();
      break;
    case 1:
      field.wire_ = Wire::kFixed64;
      field.integer_ = ReadFixed(8);
      break;
    case 2: {
      field.wire_ = Wire::kBytes;
      const uint64_t length = ReadVarint();
      if (length > bytes_.size() - at_)
        FailAt(field.at_, fmt::format("field {} says that it has {} bytes", key >> 3, length));
      field.bytes_ = bytes_.substr(at_, length);
      at_ += length;
      break;
    }
    case 5:
      field.wire_ = Wire::kFixed32;
      field.integer_ = ReadFixed(4);
      break;
    default:
      FailAt(field.at_, fmt::format("field {} has the unknown wire type {}", key >> 3, key & 7));
  }
  return field;
}

void ProtobufReader::Field::Expect(Wire wire) const {
  if (wire_ != wire)
    reader_->FailAt(at_, fmt::format("field {} is of another type (wire type {})", number_, static_cast<int>(wire_)));
}

uint64_t ProtobufReader::Field::Integer() const {
  Expect(Wire::kVarint);
  return integer_;
}

float ProtobufReader::Field::Float() const {
  Expect(Wire::kFixed32);
  return std::bit_cast<float>(static_cast<uint32_t>(integer_));
}

std::string_view ProtobufReader::Field::Bytes() const {
  Expect(Wire::kBytes);
  return bytes_;
}

ProtobufReader ProtobufReader::Field::Message() const {
  Expect(Wire::kBytes);
  return {bytes_, reader_->path_, reader_->offset_ + static_cast<size_t>(bytes_.data() - reader_->bytes_.data())};
}

}  // namespace quire
