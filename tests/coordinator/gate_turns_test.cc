#include "coordinator/cluster/tier/gate_turns.h"

#include <gtest/gtest.h>

#include <list>

namespace quire {
namespace {

struct Call {
  std::string client;
  int number = 0;
};

/// Serves the next `count` calls, and returns their clients.
std::string Serve(GateTurns& turns, std::list<Call>& calls, int count) {
  std::string served;
  for (int i = 0; i < count; ++i) {
    const auto next = turns.Next(calls);
    turns.Take(next->client);
    served += next->client;
    calls.erase(next);
  }
  return served;
}

TEST(GateTurnsTest, Clients_TakeTurns_WhateverNumberOfCallsEachHas) {
  GateTurns turns;
  std::list<Call> calls;
  for (int i = 0; i < 6; ++i) turns.Come("m"), calls.push_back({"m", i});
  EXPECT_EQ(Serve(turns, calls, 2), "mm");
  for (const char* late : {"a", "b", "a"}) turns.Come(late), calls.push_back({late});
  EXPECT_EQ(Serve(turns, calls, 7), "abmammm");
}

TEST(GateTurnsTest, CallsOfAClient_AreServedInTheOrderOfArrival) {
  GateTurns turns;
  std::list<Call> calls;
  for (int i = 0; i < 3; ++i) turns.Come("a"), calls.push_back({"a", i});
  EXPECT_EQ(turns.Next(calls)->number, 0);
}

TEST(GateTurnsTest, NewClients_ComeAfterAWaitingClient_HoweverManyNewClientsThereAre) {
  GateTurns turns;
  std::list<Call> calls = {{"m", 0}, {"a", 1}};
  turns.Come("m"), turns.Come("a");
  EXPECT_EQ(Serve(turns, calls, 1), "m");
  int before = 0;
  for (; turns.Next(calls)->client != "a"; ++before) {
    ASSERT_LT(before, 3);
    turns.Take(turns.Next(calls)->client);
    const std::string name = "new" + std::to_string(before);
    turns.Come(name), calls.push_back({name});
  }
  EXPECT_EQ(before, 0);
  EXPECT_EQ(Serve(turns, calls, 1), "a");
  turns.Come("m"), calls.push_back({"m"});
  turns.Come("a"), calls.push_back({"a"});
  EXPECT_EQ(Serve(turns, calls, 1), "m");
  turns.Come("new"), calls.push_back({"new"});
  EXPECT_EQ(turns.Next(calls)->client, "a") << "it waited before the new one came";
  for (int i = 0; i < 1000; ++i) turns.Come("n" + std::to_string(i));
  turns.Forget(calls);
  EXPECT_EQ(turns.Next(calls)->client, "a");
}

}  // namespace
}  // namespace quire
