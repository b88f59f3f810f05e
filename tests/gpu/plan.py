"""Lists every part of a GPU run, with its command and time limit, in order."""
import collections

# One call on a borrowed machine lasts ten minutes, unpacking included.
CALL_SECONDS, UNPACK_SECONDS = 600, 20
RUN_SECONDS = CALL_SECONDS - UNPACK_SECONDS
# The time of a run outside its parts: at the beginning and end, and around each part.
FIXED_SECONDS, SECONDS_PER_PART = 10, 1

# The first tests of every kernel: a general fault shows within seconds.
SMOKE = [
    "PagedDecodeTest.*WhenContextsEndAroundPartitions", "DecodeAttentionTest.*WhenContextsAreSplit", "PrefillAttentionTest.*_ForGroups*",
    "SkinnyGemmTest.FusedNorm*", "QuantizedGemmTest.*_ForManyDepths", "QuantizeRowsTest.*", "SamplingTest.Ties_*", "RopeKvWriteTest.*", "BlockCopyTest/Cuda.*", "*PackRunsTest.*",
    "RmsNormTest/Cuda.*", "GateMulTest/Cuda.*", "EmbeddingTest/Cuda.*", "ScatterTableTest.ScatterTable*", "GatherRowsTest.*", "FeedTokensTest.*", "CountsTest.Fill*",
    "RouteExpertsTest/Cuda.*", "GroupByExpertTest/Cuda.*", "CudaExpertMatmulTest.ExpertMatmul_*", "CombineExpertsTest/Cuda.*"]

# The tests under sanitizers: every kernel, but few shapes, because sanitizers are about a hundred times slower.
SANITIZED = [
    "RopeKvWriteTest.*", "BlockCopyTest/Cuda.*", "*PackRunsTest.*", "RmsNormTest/Cuda.*", "GateMulTest/Cuda.*", "EmbeddingTest/Cuda.*",
    "PagedDecodeTest.*WhenContextsEndAroundPartitions", "PagedDecodeTest.Alibi*", "DecodeAttentionTest.*WhenContextsAreSplit", "DecodeAttentionTest.Alibi*",
    "DecodeAttentionTest.*WithTablesIn*", "PrefillAttentionTest.Alibi*", "PrefillAttentionTest.*HoweverAPromptIsCut*", "SkinnyGemmTest.FusedNorm*",
    "SkinnyGemmTest.ARow*", "QuantizedGemmTest.Rows*", "QuantizeRowsTest.*", "SamplingTest.Ties*", "SamplingTest.OnlyAllowedToken*", "SamplingTest.Extreme*", "ScatterTableTest.ScatterTable*",
    "GatherRowsTest.*", "FeedTokensTest.*", "CountsTest.*", "RouteExpertsTest/Cuda.*", "GroupByExpertTest/Cuda.*",
    "CudaExpertMatmulTest.*", "CombineExpertsTest/Cuda.*"]

ASYNCHRONOUS = {"QUIRE_ASYNCHRONOUS_LAUNCHES": "1"}

# kind: how parts.py runs and judges the part. limit: seconds. env: additional variables; None: the value that `run` found stays.
# Placeholders of a command: {bin}, {here} (this folder), {folder} (of this run), {pack}, {python}. {tool:NAME} is searched on the
# PATH; without the tool the part is not run.
Part = collections.namedtuple("Part", "name kind limit command env", defaults=({},))


def bench(section, limit, *flags):
    return Part(f"bench {section}", "bench", limit,
                ["{bin}/quire-bench-kernels", "--only", section, "--json", "{folder}/" + section + ".json", *flags])


def tests(name, limit, program, pattern, env=None):
    return Part(name, "gtest", limit, ["{bin}/" + program, "--gtest_color=no", "--gtest_filter=" + pattern], env or {})


def answers(name, *flags):
    return Part(name, "program", 20, ["{bin}/quire-bench-kernels", "--models", "{folder}/models", *flags])


def profile(layers):
    """Profiles the kernels of one decode step of one sequence."""
    return Part(f"profile step {layers}", "profile", 20,
                ["{tool:ncu}", "--profile-from-start", "off", "--graph-profiling", "node", "--clock-control", "none", "--cache-control",
                 "none", "--metrics", "gpu__time_duration.sum", "--csv", "{bin}/quire-bench-kernels", "--profile-step", "--batches", "1",
                 "--layers", f"{layers},{layers}", "--models", "{folder}/models"])


def sanitizer(tool, limit):
    return Part(f"sanitizer {tool}", "sanitizer", limit,
                ["{tool:compute-sanitizer}", "--tool", tool, "--error-exitcode", "9", "--print-limit", "5", "{bin}/gpu_kernel_tests",
                 "--gtest_color=no", "--gtest_filter=" + ":".join(SANITIZED)])


PARTS = [
    bench("ceilings", 15),
    tests("smoke tests", 25, "gpu_kernel_tests", ":".join(SMOKE)),
    bench("decode", 40),
    bench("prefill", 20),
    bench("products", 25),
    bench("small", 20),
    bench("sampling", 15),
    Part("bench PyTorch", "others", 25, ["{python}", "{here}/sdpa.py", "{folder}/others.json"], {"LD_LIBRARY_PATH": None}),
    answers("step answers of single kernels", "--eager", "--answers", "{folder}/answers"),
    answers("step answers of graphs", "--expect", "{folder}/answers"),
    bench("steps", 60, "--models", "{folder}/models"),
    profile(2),
    profile(6),
    tests("kernel tests", 60, "gpu_kernel_tests", "*"),
    Part("block moves", "program", 12, ["{bin}/gpu_block_moves"]),
    # Kernels of several ranks wait for each other on one device. These parts are near the end, because they may leave the device in a bad
    # state.
    tests("one-shot tests", 15, "gpu_one_shot_test", "*", ASYNCHRONOUS),
    tests("engine tests", 35, "gpu_engine_tests", "*", ASYNCHRONOUS),
    sanitizer("memcheck", 25),
    sanitizer("racecheck", 25),
    sanitizer("synccheck", 15),
    # Ranks of several processes take turns on one device, which NCCL does not support. Nothing else may wait for this part.
    Part("tensor parallel tests", "program", 35, ["{python}", "{here}/tp_test.py", "{pack}"])]
