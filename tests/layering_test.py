#!/usr/bin/env python3
"""Checks the house rules that a reader relies on: allowed includes between folders, no circles of folders, one owner for each library, no
build switches in headers, no mutable globals, files of limited length, lines of at most 120 columns, operations for both kinds of
devices, and examples and lengths that documents quote. Prints every breach; exits with 1 if there is one."""
import glob
import graphlib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("coordinator", "worker", "kernels", "comm")

# folder -> folders whose headers it may include
ALLOWED = {
    "kernels": {"kernels"},
    "comm": {"comm"},
    "worker": {"worker", "comm", "kernels"},
    "coordinator": {"coordinator", "comm"},
}
# The only header that comm and kernels, which do not include each other, share: the types of stored numbers.
NUMBER_TYPES = "comm/base/number_type.h"
# Folders of the coordinator that are leaves: each includes only its own headers and those of comm.
LEAVES = ("coordinator/core/", "coordinator/http/", "coordinator/text/")
# The core uses no sockets, texts, clocks or flags.
CORE = "coordinator/core/"
CORE_FORBIDDEN = re.compile(r"<(thread|mutex|chrono|boost/|zmq|sys/|spdlog/)|system_clock|steady_clock")

# library header -> files that may include it
OWNERS = {
    r"zmq": {"comm/wire/channel.cc", "comm/wire/curve/curve_server.cc", "comm/wire/curve/curve_keys.cc",
             "coordinator/cache_events/cache_event_publisher.cc",
             "coordinator/cache_events/cache_event_replays.h", "coordinator/cache_events/event_endpoint.h"},
    r"mpi\.h": {"comm/collective/mpi_bootstrap.cc", "comm/collective/mpi_collective.cc"},
    r"nccl": {"comm/collective/nccl_collective.cc", "comm/collective/nccl_communicator.h"},
    r"yaml-cpp": {"comm/base/yaml_tree.cc"},
    r"nlohmann": {"comm/base/json.h", "comm/base/json_fwd.h"},
    r"flatbuffers": {"comm/wire/messages.cc"},
    r"pcre2": {"coordinator/text/tokenizer/splitter.cc", "comm/model/name_pattern.cc"},
    r"utf8proc": {"coordinator/text/characters.cc", "coordinator/text/unicode_forms.cc"},
    r"xgrammar|dlpack": {"comm/grammar/grammar_compiler.cc"},
    r"zlib": {"coordinator/journal/record_ring.cc"},
    r"sodium": {"comm/wire/messages.cc", "comm/wire/curve/curve_server.cc", "coordinator/core/blocks/prefix_cache.cc", "coordinator/core/blocks/prefix_origin.cc", "coordinator/cluster/launch/deployment.cc", "coordinator/kv_disk/block_seal.cc", "coordinator/kv_disk/kv_archive.cc",
                "coordinator/api/access/client_id.cc", "coordinator/api/openai/pooled_answer.cc", "coordinator/api/requests/responses/sealed_text.cc", "coordinator/text/tokenizer/keyed_hash.cc", "coordinator/text/tokenizer/tokenizer_json_steps.cc", "comm/grammar/grammar_source.cc", "coordinator/main.cc", "comm/model/model_files_fingerprint.cc", "comm/model/adapter_files.cc", "comm/model/checksums.cc",
                "worker/serve/worker.cc", "comm/base/secret_file.cc", "coordinator/api/access/api_keys.cc"},
    r"prometheus": {"coordinator/metrics/series.h", "coordinator/metrics/metrics.cc"},
    r"CLI/": {"coordinator/main.cc", "coordinator/cli/command.h", "coordinator/cli/command_line.h", "coordinator/cli/completion.h", "coordinator/cli/foreign_words.h",
                 "coordinator/cli/manual_sections.h", "coordinator/cli/parse_command_line.h", "coordinator/bench/commands.cc", "coordinator/cli/serve_flags.cc", "worker/serve/main.cc",
              "worker/cuda/bench/main.cc"},
    r"boost/beast": {"coordinator/http/http_head.h", "coordinator/http/connection.h", "coordinator/http/connection_reading.cc", "coordinator/http/connection_writing.cc",
                     "coordinator/api/access/authenticate.cc", "coordinator/api/openai/data_port.cc", "coordinator/client/http_client.cc"},
    r"openssl|boost/asio/ssl": {"coordinator/http/client_socket.h", "coordinator/http/tls.cc", "coordinator/client/http_client.cc"},
    r"editline": {"coordinator/client/chat.cc", "coordinator/client/paste_input.cc"},
    r"cublas": {"worker/cuda/device/gemm_cublaslt.cc"},
    r"cuda": {"worker/cuda/device/device_runtime.cc", "kernels/cuda/simt/device.cuh", "kernels/cuda/simt/numeric.cuh", "comm/collective/cuda_ipc.cc",
             "worker/cuda/bench/bench_kernels.cu"},
    r"[ei]mmintrin": {f"kernels/cpu/isa/intrinsics_{name}.h" for name in ("baseline", "256", "512")},
}

# Callbacks that any code may replace at any time. A class has a named interface for its reports instead, or takes callbacks once.
PUBLIC_FUNCTION = re.compile(r"^  (mutable )?std::function<.*> \w+( = .*|\{.*\})?;")
PUBLIC_FUNCTIONS_ALLOWED = {
    "coordinator/core/blocks/block_pool.h": "one block is evicted for another inside of a call; the prefix cache alone listens",
    "coordinator/api/openai/event_queue.h": "what a generation's connection knows is known only once the generation is there",
    "coordinator/http/http_types.h": "the handler of the moment says what is to stop when its client leaves",
    "worker/engine/sequence_table.h": "the vocabulary, and with it the maker of constraints, comes after the table",
}

# Folders with files that include folders inside them, and with files that those folders include; with the reason.
BOTH_SIDES = {
    "comm/model": "the description of a model is filled in by its family, and the list of families stands beside the description",
}

ARCHITECTURES = "comm/model/architectures/"
READING_LIST = "docs/architecture.md"
# Operations of kernels/*.h that only the CPU has, and operations that have other parameters on CUDA, with the reason.
ONE_DEVICE = {
    "Rope": "CUDA rotates in RopeKvWrite",
    "HeadNorm": "CUDA norms heads in RopeKvWrite",
    "KvWrite": "CUDA writes keys and values in RopeKvWrite",
    "Matmul": "weights are packed here; CUDA has SkinnyGemm and the vendor's library",
    "ExpertMatmul": "weights are packed here and plain on CUDA",
    "AddLowRank": "the CUDA engine has no adapters",
    "PagedAttention": "CUDA attends to chunks and to decodes apart, after a plan of the host",
    "ScaleColumns": "the CUDA engine refuses models with factors of products",
    "ScaleRows": "the CUDA engine refuses mixtures that weigh inputs",
    "MeasureCeilings": "a measurement, not an op",
}

MAX_HEADER, MAX_SOURCE, MAX_FUNCTION, MAX_COLUMNS = 100, 300, 60, 120
# Longer files, each with its reason.
LONG_FILES = {
    "coordinator/text/jinja/value.h": "every kind of value, and what can be asked of it",
    "comm/topology/topology_reader.cc": "one reader per section of the schema",
    "comm/topology/topology.h": "every setting with its default",
    "coordinator/text/jinja/interpreter.cc": "one small function per kind of expression and statement",
    "comm/wire/messages.h": "every message and the functions that carry them",
    "comm/wire/messages.cc": "both directions of every message side by side",
    "coordinator/server/serve.cc": "one server, from its settings to its end",
    "coordinator/cli/serve_flags.cc": "every flag with its help",
    "coordinator/core/schedule/scheduler.h": "the policy's whole surface with its contract",
    "coordinator/api/openai/data_port.h": "every option of the data port and every step that a generating request goes through",
    "coordinator/core/request.h": "all that a request carries from its client, through the scheduler and between engines",
    "coordinator/core/engine/engine.h": "every way into and out of the engine",
    "coordinator/journal/archive.h": "both directions of every kind of value side by side",
    "comm/model/model_files.h": "everything that is asked of a model's files",
    "comm/model/model_spec.h": "all that a model computes, one field after another",
    "comm/base/number_type.h": "every way to store a number, with its layout",
    "kernels/cpu/isa/table.h": "every inner part, and what it is called with",
    "worker/cpu/weights.h": "everything that a rank keeps of a model, matrix by matrix",
    "worker/cpu/cpu_decoder.h": "every operation of a forward pass and what it keeps",
    "worker/cuda/decoder/cuda_decoder.h": "every operation of a forward pass and what it keeps",
    "comm/model/weight_spec.h": "every role and every axis of a weight",
    "kernels/cpu/isa/paged_attention.cc": "one item from its first score to its result",
    "comm/wire/step_plan.h": "the one message down, whole",
    "coordinator/cluster/group/worker_group.h": "the handshake, the steps and the watch over one group",
    "kernels/cpu/isa/vec.h": "the vector vocabulary that the kernels are written in",
}


def files():
    for folder in FOLDERS:
        for directory, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith((".h", ".cc", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(directory, name), ROOT)


def texts():
    """Yields the files whose lines are checked: C++, CUDA, CMake and shell scripts."""
    yield "CMakeLists.txt"
    for folder in (*FOLDERS, "cmake", "deploy", "tests"):
        for directory, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                path = os.path.join(directory, name)
                if name.endswith((".h", ".cc", ".cu", ".cuh", ".cmake", "CMakeLists.txt")) or is_shell_script(path):
                    yield os.path.relpath(path, ROOT)


def is_shell_script(path):
    if not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as f:
        return re.match(rb"#!.*\bsh\b|#!.*\bbash\b", f.readline()) is not None


def check_columns(path, breach):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if len(line.rstrip("\n")) > MAX_COLUMNS:
                breach(path, f"line {number}: {len(line) - 1} columns, at most {MAX_COLUMNS}")


def check_includes(path, text, breach):
    folder = path.split("/")[0]
    for target in re.findall(r'#include "([^"]+)"', text):
        if ".." in target:
            breach(path, f"includes {target} by a relative path")
        top = target.split("/")[0]
        if top in FOLDERS and top not in ALLOWED[folder] and target != NUMBER_TYPES:
            breach(path, f"{folder} must not include {top}")
        for leaf in LEAVES:
            if path.startswith(leaf) and top in FOLDERS and not target.startswith((leaf, "comm/")):
                breach(path, f"{leaf} is a leaf and must not include {target}")
    for header in re.findall(r"#include <([^>]+)>", text):
        for pattern, owners in OWNERS.items():
            if re.match(pattern, header) and path not in owners:
                breach(path, f"<{header}> belongs to {', '.join(sorted(owners)) or 'nobody yet'}")
    if path.startswith(CORE) and CORE_FORBIDDEN.search(text):
        breach(path, "the core has no threads, clocks, sockets or logs")
    if path.startswith(CORE) and (flag := re.search(r'"[^"\n]*(--[a-z][a-z-]+)', text)):
        breach(path, f"the core names no flags: {flag[1]} belongs into what reports the error to a client")


def check_number_types(path, text, breach):
    for name, values in re.findall(r"\benum (?:class )?(\w*)[^{;]*\{([^}]*)\}", text):
        is_asked = "kAuto" in values or "kNone" in values  # these enums are settings, not types of stored numbers
        if path != NUMBER_TYPES and not is_asked and re.search(r"\bk(F16|BF16|F32|Fp8\w*|Half|Q[458]_\w+)\b", values):
            breach(path, f"enum {name} says again what {NUMBER_TYPES} says")


def ops_of(headers, stream):
    """Returns the names of the operations that headers declare for a stream."""
    names = set()
    for header in glob.glob(os.path.join(ROOT, headers), recursive=True):
        with open(header, encoding="utf-8") as f:
            names.update(re.findall(rf"^\w+ (\w+)\(const {stream}& stream", f.read(), re.M))
    return names


def check_twins(breach):
    """Checks that an operation of kernels/*.h has an overload for each stream (CPU and CUDA), that both overloads use the same parameters,
    and that one test body tests both. ONE_DEVICE lists the exceptions."""
    cpu, cuda, own = ops_of("kernels/*.h", "CpuStream"), ops_of("kernels/*.h", "CudaStream"), ops_of("kernels/cuda/**/*.h", "CudaStream")
    tests = ""
    for name in os.listdir(os.path.join(ROOT, "tests/kernels")):
        if name.endswith("_test.cc"):
            with open(os.path.join(ROOT, "tests/kernels", name), encoding="utf-8") as f:
                tests += f.read()
    for op in sorted(cpu ^ cuda):
        if op not in ONE_DEVICE:
            breach("kernels", f"{op} has one overload; its twin is missing, or its reason in ONE_DEVICE")
    for op in sorted(own & (cpu | cuda) - set(ONE_DEVICE)):
        breach("kernels/cuda", f"{op} has params of its own, though kernels/ has the op")
    for op in sorted(cpu & cuda):
        if f"TYPED_TEST_SUITE({op}Test, Devices" not in tests:
            breach("tests/kernels", f"{op} has no test body over both devices")
    for op in sorted(set(ONE_DEVICE) - (cpu ^ cuda)):
        breach("tests/layering_test.py", f"ONE_DEVICE names {op}, which is no op of one device")
    if len(cpu & cuda) < 5:
        breach("kernels", "the twins are not found")


def check_header(path, text, breach):
    if "#pragma once" not in text:
        breach(path, "no #pragma once")
    if re.search(r"^\s*#\s*if", text, re.M):
        breach(path, "no #if in headers: choose files, not lines")


def check_public_functions(path, text, breach):
    inside = public = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"class \w+.*\{$", line):
            inside, public = True, False
        elif line.startswith("};"):
            inside = False
        elif inside and re.match(r" (public|protected|private):", line):
            public = line.strip() == "public:"
        elif inside and public and PUBLIC_FUNCTION.match(line) and path not in PUBLIC_FUNCTIONS_ALLOWED:
            breach(path, f"line {number}: a public mutable callback; give the class a named interface, or a setter")


def check_globals(path, text, breach):
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        if depth <= 2 and re.match(r"^(static )?[A-Za-z_][\w:<>*, ]* [a-z]\w*_?( = [^()]*|\{[^()]*\})?;$", line) and not line.startswith(
                ("using ", "return ", "namespace ", "const ", "constexpr ", "inline constexpr", "struct ", "class ", "typedef ", "extern const", "enum ")):
            breach(path, f"line {number}: mutable global: {line}")
        depth += line.count("{") - line.count("}")


def check_lengths(path, text, breach):
    lines = text.count("\n")
    limit = MAX_HEADER if path.endswith(".h") else MAX_SOURCE
    if lines > limit and path not in LONG_FILES:
        breach(path, f"{lines} lines, at most {limit}")
    begin = None
    for number, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        if begin is None and indent in (0, 2) and re.match(r"\s*[\w:<>*&~\[\], ]+\(.*\{$", line) and not re.match(r"\s*(namespace|struct|class|if|for|while|switch)\b", line):
            begin, at = number, indent
        elif begin is not None and line.startswith(" " * at + "}") and len(line) - len(line.lstrip()) == at:
            if number - begin > MAX_FUNCTION:
                breach(path, f"the function at line {begin} has {number - begin} lines, at most {MAX_FUNCTION}")
            begin = None


def circle_of_rooms(folder, includes):
    """Returns rooms of a folder that include each other in a circle, or nothing. A room is a folder inside `folder`, taken whole
    with all folders inside it. The files directly in `folder` are one room, too, named `folder`. `includes` has the
    headers that each file includes."""
    def room_of(path):
        inside = path[len(folder):].lstrip("/").split("/")
        return os.path.join(folder, inside[0]) if len(inside) > 1 else folder

    rooms = {}
    for path, targets in includes.items():
        if path.startswith(os.path.join(folder, "")):
            rooms.setdefault(room_of(path), set()).update(room_of(t) for t in targets if t.startswith(os.path.join(folder, "")))
    for room, others in rooms.items():
        others.discard(room)
        if folder in BOTH_SIDES:
            others.discard(folder)
    try:
        graphlib.TopologicalSorter(rooms).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def check_circles(includes, breach):
    """Checks at every depth, from the top folders down, that no folders, each with all folders inside it, include each other in a circle."""
    parents = {""}
    for path in includes:
        parts = path.split("/")[:-1]
        parents.update("/".join(parts[:n]) for n in range(1, len(parts) + 1))
    for folder in sorted(parents):
        if circle := circle_of_rooms(folder, includes):
            breach(folder or "the top folders", f"{' <- '.join(circle)}: rooms that include each other; one of them is above the others")


def check_reading_list(breach):
    """Checks that the numbers of lines in docs/architecture.md's reading list differ from the real ones by at most a tenth."""
    with open(os.path.join(ROOT, READING_LIST), encoding="utf-8") as f:
        section = f.read().split("## Read in this order\n")[1].split("\n## ")[0]
    parts = re.findall(r"^- [^`]*(.*?): ([\d,]+) lines\.$", section, re.M | re.S)
    if len(parts) != section.count("\n- ") + section.startswith("- "):
        breach(READING_LIST, "a part of the reading list does not say its length")
    for names, said in parts:
        lines = 0
        for name in re.findall(r"`([^`]+/[^`]+)`", names):
            with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                lines += f.read().count("\n")
        if abs(lines - int(said.replace(",", ""))) > lines / 10:
            breach(READING_LIST, f"a part of the reading list has {lines} lines, not {said}")


def check_tensor_names(path, text, spelt, breach):
    """Checks that code asks for a weight by its role. Only the code of model architectures (ARCHITECTURES) spells the names that model
    files use, and each name once. `spelt` maps the names in the files that were checked before to these files."""
    for name in re.findall(r'"(\w[\w.{}]*\.(?:weight|bias)|(?:model|blk)\.[\w.]*\{\}\.[\w.{}]+)"', text):
        if not path.startswith(ARCHITECTURES):
            breach(path, f"spells a tensor's name, {name}, which belongs into {ARCHITECTURES}")
        elif name in spelt:
            breach(path, f"spells a tensor's name, {name}, again: it stands in {spelt[name]}")
        spelt[name] = path


def check_example(breach):
    """Checks that the example in CONTRIBUTING.md of a new architecture equals the code in its file, word for word."""
    with open(os.path.join(ROOT, "CONTRIBUTING.md"), encoding="utf-8") as f:
        shown = re.search(r"`(comm/model/architectures/\w+\.cc)`.*?\n *```cpp\n(.*?)\n *```", f.read(), re.S)
    with open(os.path.join(ROOT, shown[1]), encoding="utf-8") as f:
        lines = {line.strip() for line in f}
    for line in shown[2].splitlines():
        if line.strip() not in lines:
            breach("CONTRIBUTING.md", f"shows a line that {shown[1]} does not have: {line.strip()}")


def main():
    breaches = []
    count = 0
    includes, spelt = {}, {}
    check_example(lambda p, what: breaches.append(f"{p}: {what}"))
    check_reading_list(lambda p, what: breaches.append(f"{p}: {what}"))
    for path in files():
        count += 1
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        breach = lambda p, what: breaches.append(f"{p}: {what}")
        check_includes(path, text, breach)
        includes[path] = [i for i in re.findall(r'#include "([^"]+/[^"]+)"', text) if i != NUMBER_TYPES]
        check_number_types(path, text, breach)
        check_tensor_names(path, text, spelt, breach)
        if path.endswith(".h"):
            check_header(path, text, breach)
            check_public_functions(path, text, breach)
        else:
            check_globals(path, text, breach)
        check_lengths(path, text, breach)
        if re.search(r"std::regex|\bsystem\(|\bpopen\(", text):
            breach(path, "std::regex, system() and popen() are banned")
    for path in texts():
        check_columns(path, lambda p, what: breaches.append(f"{p}: {what}"))
    check_circles(includes, lambda p, what: breaches.append(f"{p}: {what}"))
    check_twins(lambda p, what: breaches.append(f"{p}: {what}"))
    for path in LONG_FILES:
        if not os.path.exists(os.path.join(ROOT, path)):
            breaches.append(f"{path}: listed as long, but does not exist")
    print("\n".join(breaches) or f"{count} files keep the rules")
    sys.exit(1 if breaches or count < 50 else 0)


main()
