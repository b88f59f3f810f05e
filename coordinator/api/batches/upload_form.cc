#include "coordinator/api/batches/upload_form.h"

#include <algorithm>
#include <cctype>

#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr size_t kLongestBoundary = 70;

ApiError Malformed(const std::string& what) { return {400, "the form is malformed: " + what, "file"}; }

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view WithoutBlanks(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// Returns the parameters of a header's value, such as `form-data; name="file"; filename="a.jsonl"`, by their names in
/// lower case.
std::map<std::string, std::string> ParametersOf(std::string_view value) {
  std::map<std::string, std::string> parameters;
  size_t at = value.find(';');
  while (at < value.size()) {
    const size_t sign = value.find('=', at);
    if (sign == std::string_view::npos) break;
    const std::string name = LowerCase(WithoutBlanks(value.substr(at + 1, sign - at - 1)));
    std::string text;
    size_t i = sign + 1;
    while (i < value.size() && value[i] == ' ') ++i;
    if (i < value.size() && value[i] == '"') {
      for (++i; i < value.size() && value[i] != '"'; ++i) {
        if (value[i] == '\\' && i + 1 < value.size() && (value[i + 1] == '"' || value[i + 1] == '\\')) ++i;
        text += value[i];
      }
      if (i >= value.size()) throw Malformed("a quotation mark is missing");
      at = value.find(';', i);
    } else {
      at = value.find(';', i);
      text = WithoutBlanks(value.substr(i, at - i));
    }
    if (!parameters.emplace(name, std::move(text)).second) throw Malformed("the parameter " + name + " comes twice");
  }
  return parameters;
}

std::string WithoutFolders(std::string name) {
  name.erase(0, name.find_last_of("/\\") + 1);
  std::erase_if(name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
  constexpr size_t kLongest = 255;
  if (name.size() > kLongest) name.resize(kLongest);
  return name;
}

}  // namespace

UploadForm::UploadForm(std::string_view content_type, std::function<void(std::string_view)> on_file)
    : on_file_(std::move(on_file)) {
  if (LowerCase(WithoutBlanks(content_type.substr(0, content_type.find(';')))) != "multipart/form-data")
    throw ApiError(415, "files come as multipart/form-data, with the parts purpose and file");
  const auto parameters = ParametersOf(content_type);
  const auto found = parameters.find("boundary");
  if (found == parameters.end() || found->second.empty() || found->second.size() > kLongestBoundary)
    throw Malformed("its Content-Type names no boundary of 1 to 70 characters");
  boundary_ = "\r\n--" + found->second;
  buffer_ = "\r\n";  // the first boundary may begin the body
}

void UploadForm::Push(std::string_view bytes) {
  buffer_ += bytes;
  while (Step()) {
  }
}

/// Processes the bytes in buffer_ to the end of the present stage. Returns false when more bytes are needed.
bool UploadForm::Step() {
  if (stage_ == Stage::kPreamble || stage_ == Stage::kContent) return FindBoundary();
  if (stage_ == Stage::kAfterBoundary) {
    if (buffer_.size() < 2) return false;
    if (buffer_.starts_with("--")) {
      stage_ = Stage::kOver;
      buffer_.clear();
      return false;
    }
    const size_t blanks = std::min(buffer_.find_first_not_of(" \t"), buffer_.size());
    if (buffer_.size() < blanks + 2 && buffer_.size() <= kHeaderBytes) return false;
    if (buffer_.compare(blanks, 2, "\r\n") != 0) throw Malformed("something stands behind a boundary");
    buffer_.erase(0, blanks);  // leaves the line end: the search for a header begins with one
    stage_ = Stage::kHeaders;
    return true;
  }
  if (stage_ == Stage::kHeaders) {
    const size_t end = buffer_.find("\r\n\r\n");
    if (end == std::string::npos && buffer_.size() <= kHeaderBytes) return false;
    if (end == std::string::npos || end > kHeaderBytes) throw Malformed("the head of a part is too long");
    BeginPart(buffer_.substr(0, end));
    buffer_.erase(0, end + 4);
    stage_ = Stage::kContent;
    return true;
  }
  buffer_.clear();  // text after the form is ignored
  return false;
}

/// Passes on the bytes that surely precede the next boundary. Returns true when the boundary was found.
bool UploadForm::FindBoundary() {
  const size_t at = buffer_.find(boundary_);
  const bool found = at != std::string::npos;
  const size_t sure = found ? at : buffer_.size() - std::min(buffer_.size(), boundary_.size() - 1);
  if (stage_ == Stage::kContent) Take(std::string_view(buffer_).substr(0, sure));
  buffer_.erase(0, found ? at + boundary_.size() : sure);
  if (found) stage_ = Stage::kAfterBoundary;
  return found;
}

void UploadForm::BeginPart(const std::string& headers) {
  std::map<std::string, std::string> parameters;
  bool known = false;
  for (size_t at = 0; at < headers.size();) {
    const size_t begin = at + 2, end = std::min(headers.find("\r\n", begin), headers.size());
    const std::string_view line = std::string_view(headers).substr(begin, end - begin);
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string name = LowerCase(line.substr(0, colon));
    if (name == "content-transfer-encoding") throw Malformed("a part is encoded (Content-Transfer-Encoding)");
    if (name == "content-disposition") {
      const std::string_view value = WithoutBlanks(line.substr(std::min(colon + 1, line.size())));
      if (LowerCase(value.substr(0, value.find(';'))) != "form-data") throw Malformed("a part is no form-data");
      parameters = ParametersOf(value);
      known = true;
    }
    at = end;
  }
  if (!known || !parameters.contains("name")) throw Malformed("a part has no name");
  part_ = parameters["name"];
  if (part_ == "file") {
    if (has_file_) throw ApiError(400, "the form has several files; send one", "file");
    has_file_ = true;
    filename_ = WithoutFolders(parameters["filename"]);
    return;
  }
  if (fields_.size() == kFields) throw Malformed("it has too many parts");
  if (!fields_.emplace(part_, "").second) throw ApiError(400, "the part comes twice", part_.substr(0, 100));
}

void UploadForm::Take(std::string_view content) {
  if (content.empty()) return;
  if (part_ == "file") return on_file_(content);
  std::string& value = fields_[part_];
  if (value.size() + content.size() > kFieldBytes)
    throw ApiError(400, "the value of this part is too long", part_.substr(0, 100));
  value += content;
}

void UploadForm::End() const {
  if (stage_ != Stage::kOver) throw Malformed("it ends before its last boundary");
  if (!has_file_) throw ApiError(400, "the form has no file", "file");
}

}  // namespace quire
