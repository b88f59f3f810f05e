"""Reads this machine's GPU by nvidia-smi: its name and sizes, and its clocks, temperature and power during a run."""
import subprocess
import threading
import time

FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"
# Older drivers have another name for the reasons of lowered clocks.
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
# NVML's bits. An idle GPU (1) and clocks set by a user (2) do not count as throttling.
THROTTLING = {0x4: "power cap", 0x8: "slowdown", 0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake"}


def query(fields, timeout=30):
    """Returns the values of the first GPU; None without a GPU, or when nvidia-smi does not answer in time."""
    try:
        answer = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"], capture_output=True,
                                text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = answer.stdout.splitlines()
    values = [x.strip() for x in lines[0].split(",")] if answer.returncode == 0 and lines else []
    return values if len(values) == len(fields.split(",")) else None


def facts():
    """Returns name, driver, memory and maximum clocks of the GPU; None without a GPU."""
    values = query("name,driver_version,memory.total,clocks.max.sm,clocks.max.mem")
    if values is None:
        return None
    name, driver, memory, sm, mem = values
    return {"gpu": name, "driver": driver, "memory": f"{memory} MiB", "clocks": f"at most SM {sm} MHz, memory {mem} MHz"}


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def parse(values):
    """Returns a sample, made of the values of one line from nvidia-smi; None for values that the driver does not know."""
    try:
        reasons = int(values[4], 16)
    except (ValueError, IndexError):
        reasons = 0
    sm, mem, heat, power = (number(v) for v in values[:4])
    return {"sm": sm, "mem": mem, "heat": heat, "power": power,
            "reasons": [name for bit, name in THROTTLING.items() if reasons & bit]}


def summary(samples):
    """Describes in words the ranges of the samples' values."""
    if not samples:
        return "no clocks known"

    def span(field, unit):
        known = [s[field] for s in samples if s[field] is not None]
        if not known:
            return f"? {unit}"
        low, high = f"{min(known):.0f}", f"{max(known):.0f}"
        return (low if low == high else f"{low} to {high}") + f" {unit}"
    reasons = dict.fromkeys(reason for s in samples for reason in s["reasons"])
    return (f"SM {span('sm', 'MHz')}, memory {span('mem', 'MHz')}, {span('heat', 'C')}, {span('power', 'W')}; "
            + ("throttled: " + ", ".join(reasons) if reasons else "not throttled"))


class Log:
    """Collects samples: single ones on request, and continuous ones from another process."""

    def __init__(self, period_ms=500):
        self.samples = []
        self.process = None
        reasons = next((r for r in REASONS if query(r) is not None), None)
        self.fields = FIELDS + ("," + reasons if reasons else "")
        self.sample()
        try:
            self.process = subprocess.Popen(["nvidia-smi", f"--query-gpu={self.fields}", "--format=csv,noheader,nounits",
                                             f"--loop-ms={period_ms}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def sample(self):
        if self.fields is None:
            return
        values = query(self.fields, timeout=2)
        if values is None:
            self.fields = None  # a device that hangs must not delay every part
        else:
            self.take(values)

    def take(self, values):
        if len(values) >= 4:
            self.samples.append({"at": time.monotonic(), **parse(values)})

    def read(self):
        for line in self.process.stdout:
            self.take([x.strip() for x in line.split(",")])

    def between(self, begin, finish):
        return [s for s in self.samples if begin <= s["at"] <= finish]

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.thread.join(timeout=5)
            self.process.stdout.close()
