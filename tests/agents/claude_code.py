"""Runs Claude Code with Quire's Messages API."""
import os
import subprocess

from frame import Agent, Call, Say, stands_for

MODEL = "small"
# This text replaces Claude Code's own instructions of 7 KB. With these and with all tools, a prompt would exceed a small model's context.
SYSTEM = "You are a coding agent. Work with the tools that you have, one step at a time, and say when the task is done."
TOOLS = "Bash,Read,Edit,Write"
TASK = "Write a small program that counts words, with a check, run it, mend what fails, and say when you are done."
PROGRAM = 'def count(text):\n    return len(text.split(" "))\n'
CHECK = 'from words import count\nassert count("one  two\\nthree") == 3, count("one  two\\nthree")\n'


def turns_in(work):
    """Returns the answers that the proxy forces the model to give, one for each of the agent's requests. work: the agent's working
    folder."""

    def bash(command):
        return Call("Bash", command=command)

    def read(name):
        return Call("Read", file_path=os.path.join(work, name))

    def write(name, text):
        return Call("Write", file_path=os.path.join(work, name), content=text)

    def edit(name, old, new):
        return Call("Edit", file_path=os.path.join(work, name), old_string=old, new_string=new)

    return (
        bash("ls"),
        write("words.py", PROGRAM),
        read("words.py"),
        write("check.py", CHECK),
        bash("python3 -B check.py 2>&1 | tail -1"),
        bash("grep -n split words.py"),
        edit("words.py", 'text.split(" ")', "text.split()"),
        bash("python3 -B check.py && echo passed > result.txt"),
        read("result.txt"),
        write("README.md", "# Words\nRun check.py.\n"),
        edit("README.md", "# Words", "# Counts words"),
        bash("wc -l README.md"),
        bash("false"),
        bash("mkdir data && echo 'one two' > data/a.txt"),
        read("data/a.txt"),
        edit("data/a.txt", "two", "three"),
        bash("cat data/a.txt"),
        bash("ls > files.txt"),
        read("files.txt"),
        Say("Done: the program counts words and its check passes."),
    )


class ClaudeCode(Agent):
    name = "Claude Code"
    path = "/v1/messages"
    # The model's template shows no tools. With --tool-call-parser, the server describes the tools in its own system message.
    server_flags = ("-tp", "2", "--tool-call-parser", "hermes", "--served-model-name", MODEL)
    turns = turns_in("")
    wanted = {
        "words.py": PROGRAM.replace('" "', ""),
        "check.py": CHECK,
        "result.txt": "passed\n",
        "README.md": "# Counts words\nRun check.py.\n",
        "data/a.txt": "one three\n",
        "files.txt": "README.md\ncheck.py\ndata\nfiles.txt\nresult.txt\nwords.py\n",
    }

    @staticmethod
    def program(site):
        return os.path.join(site, "claude_agent_sdk", "_bundled", "claude")

    def version(self, site):
        return subprocess.run([self.program(site), "--version"], capture_output=True, text=True, check=True).stdout.split()[0]

    def start(self, site, home, work, url):
        self.turns = turns_in(work)
        argv = [self.program(site), "-p", TASK, "--dangerously-skip-permissions", "--system-prompt", SYSTEM, "--tools", TOOLS]
        return argv, {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "IS_SANDBOX": "1",
                      "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "ANTHROPIC_MODEL": MODEL, "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
                      "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}

    def made(self, body):
        """Returns the forced calls in the request's conversation."""
        blocks = [block for turn in body["messages"] if isinstance(turn["content"], list) for block in turn["content"]]
        return [block for block in blocks if block.get("type") == "tool_use" and block["id"] in self.calls]

    def done(self, body):
        return len(self.made(body))

    def force(self, body, number, turn, token):
        for block in self.made(body):
            block["name"] = stands_for(self.calls[block["id"]])
        body["tools"] += [{"name": stands_for(i), "input_schema": one.schema} for i, one in enumerate(self.turns, 1) if isinstance(one, Call)]
        body["temperature"] = 0
        if isinstance(turn, Call):
            body["tool_choice"] = {"type": "tool", "name": stands_for(number), "disable_parallel_tool_use": True}
        else:
            body["structured_outputs"] = {"choice": [turn.text if turn else "There is nothing left to do."]}
            body["logit_bias"] = {str(token): 100} if turn else {}

    def restore(self, event):
        block = event.get("content_block", {})
        if block.get("type") == "tool_use":
            number = int(block["name"][1:])
            self.calls[block["id"]] = number
            block["name"] = self.turns[number - 1].tool
        return event["type"] == "content_block_delta"

    def usage(self, event):
        if event["type"] != "message_delta":
            return None
        usage = event["usage"]
        return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["cache_read_input_tokens"]
