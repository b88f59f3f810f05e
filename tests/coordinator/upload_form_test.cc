#include "coordinator/api/batches/upload_form.h"

#include <gtest/gtest.h>

#include "coordinator/http/api_error.h"

namespace quire {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=XyZ";

std::string Part(const std::string& disposition, const std::string& content) {
  return "--XyZ\r\nContent-Disposition: form-data; " + disposition +
         "\r\nContent-Type: application/octet-stream\r\n\r\n" + content + "\r\n";
}

struct ReadForm {
  std::string file, filename;
  std::map<std::string, std::string> fields;
  bool operator==(const ReadForm&) const = default;
};

ReadForm Read(const std::string& body, size_t piece, const std::string& type = kType) {
  ReadForm read;
  UploadForm form(type, [&](std::string_view content) { read.file += content; });
  for (size_t at = 0; at < body.size(); at += piece) form.Push(std::string_view(body).substr(at, piece));
  form.End();
  read.fields = form.fields();
  read.filename = form.filename();
  return read;
}

int StatusOf(const std::string& body, const std::string& type = kType) {
  try {
    (void)Read(body, 7, type);
  } catch (const ApiError& error) {
    return error.status;
  }
  return 200;
}

TEST(UploadForm, Content_IsTheSame_InPiecesOfAnySize) {
  // Bytes that only resemble a boundary are content.
  const std::string content = "{\"a\": 1}\r\n\r\n--XyY\r\n--Xy\n--XyZ\r\n\r\n-";
  const std::string form = "a preamble\r\n" + Part(R"(name="purpose")", "batch") +
                           Part(R"(name="file"; filename="C:\\tmp\\in \"1\".jsonl")", content) +
                           Part(R"(name="expires_after[seconds]")", "3600") + "--XyZ--\r\nan epilogue";
  const ReadForm wanted{content, "in \"1\".jsonl", {{"purpose", "batch"}, {"expires_after[seconds]", "3600"}}};
  for (size_t piece = 1; piece <= form.size(); ++piece) EXPECT_EQ(Read(form, piece), wanted) << piece;
}

TEST(UploadForm, EmptyFilesAndFields_AreAccepted) {
  const std::string form = Part(R"(name="file"; filename="")", "") + Part(R"(name=purpose)", "") + "--XyZ--";
  EXPECT_EQ(Read(form, 3), (ReadForm{"", "", {{"purpose", ""}}}));
}

TEST(UploadForm, QuotedBoundary_IsAccepted) {
  const std::string form = Part(R"(name="file")", "x") + "--XyZ--\r\n";
  EXPECT_EQ(Read(form, 100, "Multipart/Form-Data; charset=utf-8; boundary=\"XyZ\"").file, "x");
}

TEST(UploadForm, MalformedForms_AreRefused) {
  const std::string file = Part(R"(name="file")", "x");
  EXPECT_EQ(StatusOf(file + "--XyZ--"), 200);
  EXPECT_EQ(StatusOf(file), 400) << "no last boundary";
  EXPECT_EQ(StatusOf("--XyZ--"), 400) << "no file";
  EXPECT_EQ(StatusOf(file + file + "--XyZ--"), 400) << "two files";
  EXPECT_EQ(StatusOf(Part(R"(name="a")", "") + Part(R"(name="a")", "") + file + "--XyZ--"), 400);
  EXPECT_EQ(StatusOf(Part(R"(filename="a")", "x") + "--XyZ--"), 400) << "no name";
  EXPECT_EQ(StatusOf(Part(R"(name="file; filename=a)", "x") + "--XyZ--"), 400) << "an open quotation mark";
  EXPECT_EQ(StatusOf("--XyZ\r\n\r\nx\r\n--XyZ--"), 400) << "no head";
  EXPECT_EQ(StatusOf("--XyZjunk\r\n" + file + "--XyZ--"), 400);
  EXPECT_EQ(StatusOf(Part("name=\"a\"; x=\"" + std::string(UploadForm::kHeaderBytes, 'y') + "\"", "") + "--XyZ--"),
            400);
  EXPECT_EQ(StatusOf(Part(R"(name="a")", std::string(UploadForm::kFieldBytes + 1, 'y')) + file + "--XyZ--"), 400);
  std::string many;
  for (size_t i = 0; i <= UploadForm::kFields; ++i) many += Part("name=\"f" + std::to_string(i) + "\"", "");
  EXPECT_EQ(StatusOf(many + file + "--XyZ--"), 400);
  EXPECT_EQ(StatusOf(file + "--XyZ--", "multipart/form-data"), 400) << "no boundary";
  EXPECT_EQ(StatusOf(file + "--XyZ--", "application/json"), 415);
}

}  // namespace
}  // namespace quire
