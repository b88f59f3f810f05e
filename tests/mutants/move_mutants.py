"""Planted bugs in the transfer of KV blocks between groups."""
from mutant import Mutant

CUT, TAKER, GIVER = "worker/model/block_cut.cc", "comm/collective/block_receiver.cc", "comm/collective/block_sender.cc"


def cut(test):
    return ["worker/block_cut_test:*" + test + "*"]


def link(test):
    return ["comm/block_link_test:*" + test + "*"]


CARRIER = "worker/cuda/device/pair_carrier.cc"
MIGRATION = "coordinator/core/schedule/migration.cc"


def devices(test):
    return ["comm/device_link_test:*" + test + "*"]


def pairs(test):
    return ["worker/cuda/pair_carrier_test:*" + test + "*"]


MUTANTS = [
    Mutant("moves: what arrives is named after the other engine's root", MIGRATION, "    sequence.contents.Restart();\n", "",
           ["coordinator/engine_migration_test:*FromDeviceToDevice*"]),
    Mutant("moves: what is encrypted goes by NCCL", "coordinator/cluster/replicas/block_shape.cc", " && !(clear_text && !from.keys.empty())", "",
           ["coordinator/block_shape_test:*WhenTrafficBetweenHostsIsEncrypted*"]),
    Mutant("moves: blocks with a window go from pool to pool", "coordinator/cluster/replicas/block_shape.cc", "!from.windowed && ", "",
           ["coordinator/block_shape_test:*ForSlidingWindowsAndHybridStates*"]),
    Mutant("moves: nobody is told that it is the device's blocks", "comm/wire/messages.cc", "b.CreateVector(m.blocks), m.on_device,", "b.CreateVector(m.blocks), false,",
           ["comm/messages_test:*BlockMessages_*"]),
    Mutant("moves: bytes from a host are written to a device", TAKER, "if (expected.carrier != nullptr) return", "if (false) return", devices("OnlyOneEndUsesTheDevice")),
    Mutant("moves: a device writes where it was not asked to", TAKER, "if (expected.carrier == nullptr)\n    return", "if (false)\n    return", devices("OnlyOneEndUsesTheDevice")),
    Mutant("moves: what was passed over is taken for the next move", TAKER, "if (chunk.place.by_device) ways_.erase(peer);", "", devices("UnexpectedTransfer")),
    Mutant("moves: a device goes on writing after the end was told", TAKER,
           "source.moving() && way.second.WasAskedFor(source.move)", "false", devices("StoppedReceiver")),
    Mutant("moves: a link goes on after a move that was called off", GIVER, "if (!stream.done && link.way.WasAskedFor(stream.move)) link.way.GiveUp();", "",
           devices("StoppedSender")),
    Mutant("moves: more blocks come from a device than there is room for", TAKER, "place.num_blocks > expected.blocks.size() ||\n      expected.num_blocks", "expected.num_blocks",
           devices("WrongAnnouncements")),
    Mutant("moves: blocks are written before their bytes are there", CARRIER,
           "      WaitFor(way);\n      kernels::PackRuns(stream, params);", "      kernels::PackRuns(stream, params);\n      WaitFor(way);", pairs("LinkIsClosed")),
    Mutant("moves: every piece is the first one", CARRIER, "int64_t i = begin; i < std::min(total, begin + most)", "int64_t i = 0; i < std::min(total - begin, most)",
           pairs("SeveralPieces")),
    Mutant("moves: the second run of a block is packed onto the first", CARRIER, "    at += run.bytes;\n", "", pairs("CopiesRangesToOtherPlacesInABlock")),
    Mutant("moves: a packed run lies where it does in its block", "kernels/cuda/elementwise/pack_runs.cuh", "now.at + (at - now.packed_at)", "at",
           ["kernels/cuda/pack_runs_test:*"]),
    Mutant("moves: of a long block only the first piece is packed", "kernels/cuda/elementwise/pack_runs.cuh",
           "simt::Min(p.packed_bytes, (simt::BlockY() + 1) * kPiece)", "simt::Min(p.packed_bytes, kPiece)", ["kernels/cuda/pack_runs_test:*"]),
    Mutant("moves: values are taken from where keys are", CUT, "(values ? source.values_at : source.keys_at)", "source.keys_at", cut("EachRankEveryByte")),
    Mutant("moves: heads are counted from the model's first", CUT, "there = head - from.layer(i).kv_heads.begin", "there = head", cut("EachRankEveryByte")),
    Mutant("moves: layers that read another's keys and values send them, too", CUT, "!layer.has_kv() ||", "!layer.has_attention() ||",
           cut("EachRankEveryByte")),
    Mutant("moves: one rank gives a head that several hold to everybody", CUT, "static_cast<size_t>(taker) % holders.size()", "0", cut("SendersHoldTheSameHead")),
    Mutant("moves: equal ranks do not give each other what both hold", CUT, "if (std::ranges::find(holders, taker) != holders.end()) return taker;", "",
           cut("BothGroupsAreEqual")),
    Mutant("moves: chunks of another epoch are taken", TAKER, " || place.epoch != epoch_", "", link("OtherEpochs")),
    Mutant("moves: a rank speaks for another one", TAKER, "received.user != CurveUserId(static_cast<Rank>(place.giver))", "false", link("BelongsToAnotherRank")),
    Mutant("moves: a chunk may begin anywhere", TAKER, "place.offset != static_cast<uint64_t>(offset) || ", "", link("WhenAChunkHasAWrongPlace")),
    Mutant("moves: the first rank that is done ends the transfer", TAKER, "const bool whole = std::ranges::all_of(",
           "const bool whole = std::ranges::any_of(", link("EveryRank_GetsItsPart")),
    Mutant("moves: what was called off goes on", GIVER, "if (outgoing.ticket == ticket) outgoing.problem = kCalledOff;", "", link("StoppedTransfer")),
    Mutant("moves: a worker with keys sends in clear text", GIVER, "!local && to.key.empty() != (self_.keys == nullptr)", "!local && false",
           link("WhenOnlyOneSideHasKeys")),
    Mutant("moves: shares of nothing pass", "comm/wire/messages.cc", "std::ranges::all_of(cut.shares, IsShare)", "std::ranges::all_of(cut.shares, [](double share) { return share >= 0; })",
           ["comm/messages_test:*BlockMessages_*"]),
    Mutant("moves: states go where they would be cut", "coordinator/cluster/replicas/block_shape.cc",
           "(from.state_blocks > 0 || to.state_blocks > 0) && from.cut != to.cut", "false", ["coordinator/block_shape_test:*HybridStates_CannotMove*"]),
    Mutant("moves: blocks of another type are taken", "coordinator/cluster/replicas/block_shape.cc", " || a.kv_cache_dtype != b.kv_cache_dtype", "",
           ["coordinator/block_shape_test:*WithDifferentBackendsOrNumberTypes*"]),
    Mutant("moves: all replicas' mpiruns take the same ports", "comm/topology/topology.cc", "if (each < kFewestMpiPorts) return ports;", "if (each > 0) return ports;",
           ["comm/topology_test:*HaveDisjointPorts*"]),
    Mutant("moves: who gives is not told where heads go", "coordinator/cluster/replicas/migrations_way.cc", ".shares = transfer.target.cut.shares,",
           ".shares = transfer.source.cut.shares,", ["e2e/moves_test:MovesBetweenShapesTest"]),
    Mutant("moves: who gives is not told where layers go", "coordinator/cluster/replicas/migrations_way.cc", ".stage_layers = transfer.target.cut.stage_layers,",
           ".stage_layers = transfer.source.cut.stage_layers,", ["e2e/pipeline_test:PipelineTest.test_streams_are_unchanged_when_blocks_move_between_pipelines_of_other_shapes"]),
    Mutant("moves: a rank of another stage gives a layer", CUT, "giver.stage.Contains(layer) && ", "", cut("BetweenPipelines")),
    Mutant("pipelines: a block has room for the layers of all stages", "worker/model/kv_layout.cc", " || !shard.stage.Contains(static_cast<int64_t>(i))", "",
           ["worker/adapter_golden_test:*OfAStageCountItsLayersAlone*"]),
    Mutant("pipelines: every stage holds all layers' weights", "worker/model/weight_plan.cc", "if (!shard.stage.Contains(layer)) return {};", "",
           ["worker/adapter_golden_test:*OfAStageCountItsLayersAlone*", "worker/weight_plan_test:*Stages*"]),
    Mutant("pipelines: each place gives the first rows", "worker/cpu/cpu_decoder_inputs.cc", "buffers_.residual.data() + part.begin", "buffers_.residual.data()",
           ["worker/golden_test:*PipelineTest*gqa*"]),
    Mutant("pipelines: a shorter pipeline keeps the layers of the longer one", "coordinator/cluster/launch/group_shape.cc", "if (pipeline == wanted.pipeline) shape", "shape",
           ["coordinator/placement_test:*ShapesUpTo*"]),
]
