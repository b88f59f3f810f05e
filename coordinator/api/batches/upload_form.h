#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace quire {

/// A form with one file (multipart/form-data, RFC 7578), read piece by piece. The file's content is passed on and not
/// stored. A malformed form throws ApiError 400.
class UploadForm {
 public:
  static constexpr size_t kHeaderBytes = 8 << 10;  // most bytes of the head of one part
  static constexpr size_t kFieldBytes = 1 << 10;   // most bytes of the value of one field
  static constexpr size_t kFields = 16;            // maximum number of fields

  /// content_type: the Content-Type of the body. on_file: receives the content of the part named "file".
  UploadForm(std::string_view content_type, std::function<void(std::string_view)> on_file);

  void Push(std::string_view bytes);
  /// Checks at the body's end that the form is complete and has a file. Throws ApiError 400 otherwise.
  void End() const;

  /// Returns the values of the form's parts other than the file, by name.
  const std::map<std::string, std::string>& fields() const { return fields_; }
  /// Returns the file's name without folders; empty: the file has no name.
  const std::string& filename() const { return filename_; }

 private:
  enum class Stage { kPreamble, kAfterBoundary, kHeaders, kContent, kOver };
  bool Step();
  bool FindBoundary();
  void BeginPart(const std::string& headers);
  void Take(std::string_view content);

  std::string boundary_;  // includes the line end and the dashes before the boundary
  std::function<void(std::string_view)> on_file_;
  Stage stage_ = Stage::kPreamble;
  std::string buffer_;
  std::string part_;  // the name of the part that is being read
  bool has_file_ = false;
  std::map<std::string, std::string> fields_;
  std::string filename_;
};

}  // namespace quire
