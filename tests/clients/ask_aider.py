"""Tries aider: changes of a file on request, with the edit formats `whole` and `diff`, each with and without streaming; also a second
request in the same chat."""
import os
import pathlib
import subprocess
import sys
import tempfile

from trials import KEY, Say, Trials, expect

trials = Trials("aider-chat", "litellm", "openai")
PROGRAM = os.path.join(os.path.dirname(sys.executable), "aider")
WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
WHOLE = f"I mend it.\n\nadd.py\n```\n{RIGHT}```\n"
BLOCK = f"I mend it.\n\nadd.py\n```python\n<<<<<<< SEARCH\n{WRONG}=======\n{RIGHT}>>>>>>> REPLACE\n```\n"


def edit(*words, messages=("Mend the sum.",)):
    """Runs aider on a file with a wrong sum. Returns the file's text and the lines that report token counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "add.py")
        path.write_text(WRONG, encoding="utf-8")
        command = [PROGRAM, "--model", f"openai/{trials.model}", "--openai-api-base", trials.url + "/v1", "--openai-api-key", KEY, "--yes-always", "--no-git",
                   "--no-show-model-warnings", "--no-check-update", "--analytics-disable", "--no-suggest-shell-commands", "--no-pretty", "--map-tokens", "0", *words]
        if len(messages) == 1:
            command += ["--message", messages[0], "add.py"]
        else:
            pathlib.Path(folder, "commands").write_text("\n".join(messages) + "\n", encoding="utf-8")
            command += ["--load", "commands", "--exit", "add.py"]
        home = {**os.environ, "HOME": folder, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=folder, env=home, stdin=subprocess.DEVNULL)
        expect(done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:])
        counted = [line for line in done.stdout.splitlines() if line.startswith("Tokens:")]
        expect(len(counted) == len(messages), done.stdout[-3000:])
        return path.read_text(encoding="utf-8"), counted


for form, answer in (("whole", WHOLE), ("diff", BLOCK)):
    for streamed in ("--stream", "--no-stream"):
        @trials(f"--edit-format {form} {streamed}", Say(answer))
        def _(form=form, streamed=streamed):
            text, counted = edit("--edit-format", form, streamed)
            expect(text == RIGHT, text)
            return counted[0]

@trials("a question, then a change, in one chat", Say("It subtracts."), Say(WHOLE))
def _():
    text, counted = edit("--edit-format", "whole", "--stream", messages=("/ask What is wrong?", "/code Mend the sum."))
    expect(text == RIGHT, text)
    return "; ".join(counted)


trials.end()
