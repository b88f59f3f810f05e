#include "coordinator/grammars/grammar_trials.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "comm/base/error.h"
#include "coordinator/grammars/frame_socket.h"
#include "coordinator/http/api_error.h"
#include "coordinator/text/tokenizer/encode_bounds.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

const GrammarSource kSource = {GrammarSource::kRegex, "a"};

GrammarTrials Trials(std::vector<std::string> command, GrammarTrials::Limits limits = {}) {
  return {std::make_shared<const Vocabulary>(Vocabulary{{"", "a"}, {0}}), std::move(command), limits};
}

TEST(GrammarTrialsTest, Try_AnswersStatus503_WhenTheTrialProgramEndsImmediately) {
  for (const char* program : {"/bin/false", "/nowhere/quire"}) {
    GrammarTrials trials = Trials({program});
    try {
      trials.Try(kSource, {});
      ADD_FAILURE() << program;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 503) << error.what();
    }
    EXPECT_EQ(trials.pid(), 0);
  }
}

TEST(GrammarTrialsTest, Try_AnswersStatus503_WithoutFileDescriptors) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  GrammarTrials trials = Trials({"/bin/false"});
  ::setrlimit(RLIMIT_NOFILE, &none);
  int status = 0;
  try {
    trials.Try(kSource, {});
  } catch (const ApiError& error) {
    status = error.status;
  } catch (const Error&) {
    status = 400;
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status, 503);
}

TEST(GrammarTrialsTest, Try_EndsTheTrialProcess_WhenStopped) {
  GrammarTrials trials = Trials({"/bin/sleep", "600"});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(trials.Try(kSource, stop.get_token()), Stopped);
  EXPECT_EQ(trials.pid(), 0);
}

TEST(GrammarTrialsTest, Try_EndsTheTrialProcess_WhenItsTimeIsUp) {
  GrammarTrials trials = Trials({"/bin/sleep", "600"}, {.wall = std::chrono::milliseconds(50)});
  EXPECT_THROW(trials.Try(kSource, {}), ApiError);
  EXPECT_EQ(trials.pid(), 0);
}

/// Returns the shell command that sends `frame` over the socket at standard input.
std::string ShellSend(const Frame& frame) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_TRUE(FrameSocket(ends[0]).Send(frame));
  ::close(ends[0]);
  std::string command = "printf '";
  for (unsigned char byte; ::read(ends[1], &byte, 1) == 1;) command += fmt::format("\\{:03o}", byte);
  ::close(ends[1]);
  return command + "' >&0; ";
}

TEST(GrammarTrialsTest, EndIfIdle_EndsTheProcess_AfterATrial) {
  const std::string accept = ShellSend(Encode(GrammarReady{}, 0, 0));  // first for the vocabulary, then for the grammar
  GrammarTrials trials = Trials({"/bin/sh", "-c", accept + accept + "exec sleep 600"});
  trials.Try(kSource, {});
  const pid_t pid = trials.pid();
  ASSERT_NE(pid, 0);
  trials.EndIfIdle();
  EXPECT_EQ(trials.pid(), 0);
  EXPECT_NE(::kill(pid, 0), 0);
  trials.Try(kSource, {});
  EXPECT_NE(trials.pid(), 0);
}

TEST(GrammarTrialsTest, Spent_GrowsByTheProcessorTimeOfEachTrial_AlsoOfOneThatTookTooLong) {
  const std::string accept = ShellSend(Encode(GrammarReady{}, 0, 0));
  const std::string work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ";
  GrammarTrials trials = Trials({"/bin/sh", "-c", accept + work + accept + "while true; do :; done"},
                                {.processor = std::chrono::milliseconds(300)});
  trials.Try(kSource, {});
  const auto after_first = trials.spent();
  EXPECT_GT(after_first, std::chrono::milliseconds(1));
  EXPECT_THROW(trials.Try(kSource, {}), Error);
  EXPECT_GE(trials.spent() - after_first, std::chrono::milliseconds(300));
}

TEST(GrammarTrialsTest, EndIfIdle_LeavesATrialAlone) {
  const TemporaryDirectory folder;
  const std::string started = folder / "started", go = folder / "go";
  const std::string accept = ShellSend(Encode(GrammarReady{}, 0, 0));
  const std::string wait = fmt::format("echo once >> {}; until [ -e {} ]; do sleep 0.01; done; ", started, go);
  GrammarTrials trials = Trials({"/bin/sh", "-c", accept + wait + accept + "exec sleep 600"});
  std::thread trial([&] { EXPECT_NO_THROW(trials.Try(kSource, {})); });
  while (!std::filesystem::exists(started)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  trials.EndIfIdle();
  std::ofstream(go).put('\n');
  trial.join();
  std::ifstream starts(started);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(starts), {}), "once\n");
}

TEST(FrameSocketTest, Frames_ArriveComplete_AndReceiveReturnsNothingAfterThePeerCloses) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FrameSocket here(ends[0]), there(ends[1]);
  const Vocabulary vocabulary{std::vector<std::string>(100'000, "abc"), {1}};
  std::thread sender([&] {
    EXPECT_TRUE(here.Send(Encode(vocabulary, 0, 0)));
    EXPECT_TRUE(here.Send(Encode(GrammarMessage{7, kSource}, 0, 0)));
    ::close(ends[0]);
  });
  const auto first = there.Receive();
  const auto second = there.Receive();
  sender.join();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(std::get<Vocabulary>(Decode(*first)), vocabulary);
  EXPECT_EQ(std::get<GrammarMessage>(Decode(*second)).source, kSource);
  EXPECT_FALSE(there.Receive());
  EXPECT_FALSE(there.Send(Encode(vocabulary, 0, 0)));
  ::close(ends[1]);
}

}  // namespace
}  // namespace quire
