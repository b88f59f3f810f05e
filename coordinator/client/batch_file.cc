#include "coordinator/client/batch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/client/member_text.h"

namespace quire {

namespace {

constexpr JsonLimits kLimits{.max_depth = 64, .max_nodes = 10'000'000};

/// Returns a string member. Throws Error with its name when it is missing or no string.
std::string TextOf(const Json& object, const char* name, const std::string& where) {
  if (!object.contains(name) || !object[name].is_string()) Fail("{}: \"{}\" must be a string", where, name);
  return object[name].get<std::string>();
}

BatchFile::Entry EntryOf(const Json& line, const std::string& where) {
  if (!line.is_object()) Fail("{}: not a JSON object", where);
  BatchFile::Entry entry{TextOf(line, "custom_id", where), TextOf(line, "url", where), 0};
  if (line.contains("method") && line["method"] != "POST") Fail("{}: \"method\" must be \"POST\"", where);
  const auto cannot_be_in_urls = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; };
  if (entry.url.size() < 2 || entry.url[0] != '/' || std::ranges::any_of(entry.url, cannot_be_in_urls))
    Fail("{}: \"url\" must be a path of the API, such as /v1/chat/completions", where);
  if (!line.contains("body") || !line["body"].is_object()) Fail("{}: \"body\" must be an object", where);
  const Json& body = line["body"];
  if (body.contains("stream") && body["stream"] != false) Fail("{}: answers of a batch cannot be streamed", where);
  return entry;
}

}  // namespace

BatchFile::BatchFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {
  if (!file_ || std::filesystem::is_directory(path)) Fail("{}: {}", path, std::strerror(errno == 0 ? EISDIR : errno));
  std::set<std::string> ids;
  std::string line;
  std::streamoff begin = 0;
  for (int64_t number = 1; std::getline(file_, line); ++number) {
    const std::streamoff next = begin + static_cast<std::streamoff>(line.size()) + 1;
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      const std::string where = fmt::format("{}: line {}", path, number);
      Entry entry = EntryOf(ParseJson(line, where, kLimits), where);
      if (!ids.insert(entry.custom_id).second) Fail("{}: custom_id \"{}\" comes twice", where, entry.custom_id);
      entry.begin = begin;
      entries_.push_back(std::move(entry));
    }
    begin = next;
  }
  if (entries_.empty()) Fail("{}: no requests", path);
}

std::string BatchFile::BodyOf(const Entry& entry) {
  file_.clear();
  file_.seekg(entry.begin);
  std::string line;
  std::getline(file_, line);
  const Json json = ParseJson(line, path_, kLimits);
  if (!json.is_object() || json.value("custom_id", Json()) != entry.custom_id || !json.contains("body"))
    Fail("{}: the file was changed while its requests were sent", path_);
  return std::string(MemberText(line, "body"));
}

void BatchAnswers::Add(const std::string& line) { file_.Add(line + '\n'); }

}  // namespace quire
