"""Executes and judges the parts of a GPU run. A part is a process group with a time limit. When a test ends its process, the test is named,
and the remaining tests continue in another process."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import plan

HERE = os.path.dirname(os.path.abspath(__file__))
# For a gtest program: the maximum number of restarts, and the maximum seconds of one test.
MAX_RESTARTS, TEST_SECONDS = 8, 15
POLL_SECONDS = 0.05

MARK = re.compile(r"\[( RUN      |       OK |  FAILED  |  SKIPPED )\] ([\w/]+\.[\w/]+)")


class Outcome:
    """Holds the result of a part: a status of a few words, details in one line, and the output."""

    def __init__(self, status, detail, output=""):
        self.status, self.detail, self.output = status, detail, output


def end(process):
    """Kills the process and its process group. Returns False if the process has not ended after 5 s."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(timeout=5)
        return True
    except subprocess.TimeoutExpired:
        return False


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"


def ended_with(status):
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


class Process:
    """Runs a process of a part, and appends its output to a file."""

    def __init__(self, command, env, log):
        self.log = log
        self.begin = os.path.getsize(log) if os.path.exists(log) else 0
        with open(log, "a", encoding="utf-8") as f:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT, env=env,
                                            start_new_session=True)

    def output(self):
        with open(self.log, "rb") as f:
            f.seek(self.begin)
            return f.read().decode("utf-8", "replace")

    def wait(self, deadline, stalled=lambda output: False):
        """Waits for the process. Returns the exit status; None if the process was killed, at the deadline or because it stalled."""
        try:
            while time.monotonic() < deadline:
                try:
                    return self.process.wait(timeout=POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    if stalled(self.output()):
                        break
            return None
        finally:
            end(self.process)  # processes that self.process started may outlive it


class Progress:
    """Reads the progress of a gtest program from its output: the outcome of each test, and the running test."""

    def __init__(self, test_seconds):
        self.test_seconds = test_seconds
        self.results, self.running, self.since = {}, None, time.monotonic()

    def read(self, output):
        results, running = {}, None
        for word, name in MARK.findall(output):
            if word.strip() == "RUN":
                running = name
            else:  # the summary repeats the outcome
                results[name], running = word.strip(), None
        if (results, running) != (self.results, self.running):
            self.results, self.running, self.since = results, running, time.monotonic()

    def stalled(self, output):
        self.read(output)
        return self.running is not None and time.monotonic() - self.since > self.test_seconds


def listed(command, env, log, deadline):
    """Returns the names of the tests that a gtest program would run; an Outcome if the program fails to list them."""
    process = Process([*command, "--gtest_list_tests"], env, log)
    status = process.wait(deadline)
    output = process.output()
    if status != 0:
        why = "ran out of time" if status is None else ended_with(status)
        return Outcome("failed", f"the list of tests: {why}: {last_line(output)}", output)
    names, suite = [], ""
    for line in output.splitlines():
        word = line.split("#")[0].rstrip()
        if word.startswith("  "):
            names.append(suite + word.strip())
        elif re.fullmatch(r"[\w/]+\.", word):
            suite = word
    return [name for name in names if "DISABLED_" not in name]


def run_gtest(command, env, log, deadline, test_seconds=TEST_SECONDS):
    """Runs all tests. When a process ends before its last test, another one runs the remaining tests, at most MAX_RESTARTS times. Returns
    an Outcome."""
    names = listed(command, env, log, deadline)
    if isinstance(names, Outcome):
        return names
    results, lost, left, output, cut = {}, {}, names, "", False
    for _ in range(1 + MAX_RESTARTS):
        progress = Progress(test_seconds)
        process = Process([*command, "--gtest_filter=" + ":".join(left)], env, log)
        status = process.wait(deadline, progress.stalled)
        output = process.output()
        progress.read(output)
        results.update(progress.results)
        cut = status is None and time.monotonic() >= deadline
        if progress.running and not cut:
            lost[progress.running] = (f"hung for {test_seconds:.0f} s" if status is None
                                      else f"took its process along ({ended_with(status)}: {last_line(output)})")
        before, left = len(left), [name for name in left if name not in results and name not in lost]
        if not left or cut or len(left) == before:
            break
    return summary(results, lost, left, cut, output)


def summary(results, lost, left, cut, output):
    count = {word: sum(1 for result in results.values() if result == word) for word in ("OK", "FAILED", "SKIPPED")}
    said = [f"{count[word]} {name}" for word, name in (("OK", "passed"), ("FAILED", "failed"), ("SKIPPED", "skipped"))
            if count[word] or word == "OK"]
    details = [", ".join(said)]
    if count["FAILED"]:
        details.append("failed: " + ", ".join(name for name, result in results.items() if result == "FAILED"))
    details += [f"{name} {what}" for name, what in lost.items()]
    if left:
        details.append(f"{len(left)} not run, from {left[0]} on" + ("" if cut else f": {last_line(output)}"))
    good = count["OK"] > 0 and not (count["FAILED"] or lost or left)
    return Outcome("passed" if good else "ran out of time" if cut else "failed", "; ".join(details), output)


def judge_program(status, output):
    """Judges programs that describe their result in the last line of output."""
    if status == 0:
        return Outcome("passed", last_line(output), output)
    return Outcome("failed", f"{ended_with(status)}: {last_line(output)}", output)


def judge_sanitizer(status, output):
    errors = re.findall(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+) (?:error|hazard)", output)
    ran = re.search(r"\[  PASSED  \] (\d+) tests?", output)
    if not errors:
        return Outcome("failed", f"no summary: {ended_with(status)}: {last_line(output)}", output)
    good = status == 0 and all(e == "0" for e in errors) and ran is not None and int(ran.group(1)) > 0
    return Outcome("passed" if good else "failed", f"{errors[-1]} errors; {ran.group(1) if ran else 'no'} tests passed", output)


def resolve(command, words, path):
    """Returns the command with its placeholders filled in; or the name of a tool that is not installed."""
    filled = []
    for word in command:
        tool = re.fullmatch(r"\{tool:(.*)\}", word)
        if tool:
            found = shutil.which(tool.group(1), path=path)
            if found is None:
                return tool.group(1)
            filled.append(found)
        else:
            filled.append(re.sub(r"\{(bin|here|folder|pack|python)\}", lambda match: words[match.group(1)], word))
    return filled


def run(part, pack, folder, env, seconds, log):
    """Runs a part of the plan for at most `seconds`; its output goes to the log."""
    words = {"bin": os.path.join(pack, "bin"), "here": HERE, "folder": folder, "pack": pack, "python": sys.executable}
    env = {**env, **{name: os.environ.get(name, "") if value is None else value for name, value in part.env.items()}}
    command = resolve(part.command, words, env.get("PATH"))
    if isinstance(command, str):
        return Outcome("not run", f"{command} is not installed")
    deadline = time.monotonic() + seconds
    if part.kind == "gtest":
        return run_gtest(command, env, log, deadline)
    process = Process(command, env, log)
    status = process.wait(deadline)
    output = process.output()
    if status is None:
        return Outcome("ran out of time", f"after {seconds:.0f} s: {last_line(output)}", output)
    return (judge_sanitizer if part.kind == "sanitizer" else judge_program)(status, output)


def allowance(part, later, left):
    """Returns how many of the `left` seconds a part may take: its limit, plus unused time of earlier parts up to the same amount, as long
    as the time for the limits of all later parts remains."""
    spare = left - sum(p.limit for p in later) - plan.SECONDS_PER_PART * (1 + len(later)) - plan.FIXED_SECONDS
    return min(max(part.limit, min(2 * part.limit, spare)), left - plan.FIXED_SECONDS)
