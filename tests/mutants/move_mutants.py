"""Mistakes in how KV blocks go from group to group."""
from mutant import Mutant

CUT, TAKER, GIVER = "worker/model/block_cut.cc", "comm/collective/block_receiver.cc", "comm/collective/block_sender.cc"


def cut(test):
    return ["worker/block_cut_test:*" + test + "*"]


def link(test):
    return ["comm/block_link_test:*" + test + "*"]


MUTANTS = [
    Mutant("moves: values are taken from where keys are", CUT, "(values ? source.values_at : source.keys_at)", "source.keys_at", cut("EveryCut")),
    Mutant("moves: heads are counted from the model's first", CUT, "there = head - from.layer(i).kv_heads.begin", "there = head", cut("EveryCut")),
    Mutant("moves: layers that read another's keys and values send them, too", CUT, "!layer.has_attention() || !layer.has_kv()", "!layer.has_attention()",
           cut("EveryCut")),
    Mutant("moves: one rank gives a head that several hold to everybody", CUT, "static_cast<size_t>(taker) % holders.size()", "0", cut("SharesTheWork")),
    Mutant("moves: equal ranks do not give each other what both hold", CUT, "if (std::ranges::find(holders, taker) != holders.end()) return taker;", "",
           cut("EqualGroups")),
    Mutant("moves: chunks of another epoch are taken", TAKER, " || place.epoch != epoch_", "", link("OtherEpochs")),
    Mutant("moves: a rank speaks for another one", TAKER, "received.user != CurveUserId(static_cast<Rank>(place.giver))", "false", link("WhoItsKeySays")),
    Mutant("moves: a chunk may begin anywhere", TAKER, "place.offset != static_cast<uint64_t>(offset) || ", "", link("WrongPlaces")),
    Mutant("moves: the first rank that is done ends the transfer", TAKER, "std::ranges::all_of(expected.sources, &Source::done)",
           "std::ranges::any_of(expected.sources, &Source::done)", link("EveryRankGetsItsPart")),
    Mutant("moves: what was called off goes on", GIVER, "if (outgoing.ticket == ticket) outgoing.problem = kCalledOff;", "", link("CalledOff")),
    Mutant("moves: a worker with keys sends in clear text", GIVER, "!local && to.key.empty() != (self_.keys == nullptr)", "!local && false",
           link("KeysAreOnBothSides")),
    Mutant("moves: shares of nothing pass", "comm/wire/messages.cc", "std::isfinite(share) && share > 0", "std::isfinite(share)",
           ["comm/messages_test:*OrdersAboutBlocks*"]),
    Mutant("moves: states go where they would be cut", "coordinator/cluster/replicas/block_shape.cc",
           "(from.state_blocks > 0 || to.state_blocks > 0) && from.shares != to.shares", "false", ["coordinator/block_shape_test:*States*"]),
    Mutant("moves: blocks of another type are taken", "coordinator/cluster/replicas/block_shape.cc", " || a.kv_cache_dtype != b.kv_cache_dtype", "",
           ["coordinator/block_shape_test:*KeptAlike*"]),
    Mutant("moves: all replicas' mpiruns take the same ports", "comm/topology/topology.cc", "if (each >= kFewestMpiPorts) mpi =", "if (each < 0) mpi =",
           ["comm/topology_test:*PortsOfTheirOwn*"]),
    Mutant("moves: who gives is not told where heads go", "coordinator/cluster/replicas/migrations.cc", ".shares = transfer.target.shares,",
           ".shares = transfer.source.shares,", ["e2e/moves_test:MovesBetweenShapesTest"]),
]
