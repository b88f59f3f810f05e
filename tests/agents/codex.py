"""Runs Codex CLI with Quire's Responses API."""
import os
import subprocess

from frame import Agent, Call, Say, stands_for

CONFIG = """\
model = "{model}"
model_provider = "quire"
model_context_window = 8192
model_instructions_file = "{home}/instructions.md"

[features]
goals = false

[skills.bundled]
enabled = false

[model_providers.quire]
name = "Quire"
base_url = "{url}/v1"
wire_api = "responses"
"""
# This text replaces Codex's own instructions of 17 KB, which would take half of a small model's context.
INSTRUCTIONS = "You are a coding agent. Work with the tools that you have, one step at a time, and say when the task is done.\n"
TASK = "Write a small package of greetings with tests, run them, mend what fails, and say when you are done."


def shell(command):
    return Call("exec_command", cmd=command)


class Codex(Agent):
    name = "Codex CLI"
    path = "/v1/responses"
    # The model's template shows no tools. With --tool-call-parser, the server describes the tools in its own system message.
    server_flags = ("-tp", "2", "--tool-call-parser", "hermes", "--served-model-name", "small")
    turns = (
        shell("mkdir greet"),
        shell("echo 'def hello(name):' > greet/core.py"),
        shell("echo '    return f\"Helo, {name}\"' >> greet/core.py"),
        shell("cat greet/core.py"),
        shell("touch greet/__init__.py"),
        shell("echo 'from greet.core import hello' > check.py"),
        shell("echo 'assert hello(\"you\") == \"Hello, you\"' >> check.py"),
        shell("python3 -B check.py 2>&1 | tail -1"),
        shell("grep -n Helo greet/core.py"),
        shell("sed -i s/Helo/Hello/ greet/core.py"),
        shell("python3 -B check.py && echo passed > result.txt"),
        shell("cat result.txt"),
        shell("echo '# Greetings' > README.md"),
        shell("echo 'Run check.py.' >> README.md"),
        shell("wc -l README.md"),
        shell("ls greet | sort > files.txt"),
        shell("cat files.txt"),
        shell("echo 1.0 > VERSION"),
        shell("python3 -B check.py"),
        Say("Done: the greeting is right and its check passes."),
    )
    wanted = {
        "greet/core.py": 'def hello(name):\n    return f"Hello, {name}"\n',
        "greet/__init__.py": "",
        "check.py": 'from greet.core import hello\nassert hello("you") == "Hello, you"\n',
        "result.txt": "passed\n",
        "README.md": "# Greetings\nRun check.py.\n",
        "files.txt": "__init__.py\ncore.py\n",
        "VERSION": "1.0\n",
    }

    @staticmethod
    def program(site):
        return os.path.join(site, "codex_cli_bin", "bin", "codex")

    def version(self, site):
        return subprocess.run([self.program(site), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]

    def start(self, site, home, work, url):
        with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as f:
            f.write(CONFIG.format(model="small", home=home, url=url))
        with open(os.path.join(home, "instructions.md"), "w", encoding="utf-8") as f:
            f.write(INSTRUCTIONS)
        argv = [self.program(site), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK]
        return argv, {"PATH": os.environ["PATH"], "HOME": home, "CODEX_HOME": home, "LANG": "C.UTF-8"}

    def done(self, body):
        return sum(item.get("type") == "function_call" and item["call_id"] in self.calls for item in body["input"])

    def force(self, body, number, turn, token):
        for item in body["input"]:
            if item.get("type") == "function_call" and item["call_id"] in self.calls:
                item["name"] = stands_for(self.calls[item["call_id"]])
        body["tools"] += [{"type": "function", "name": stands_for(i), "parameters": one.schema} for i, one in enumerate(self.turns, 1) if isinstance(one, Call)]
        body["temperature"] = 0
        if isinstance(turn, Call):
            body["tool_choice"] = {"type": "function", "name": stands_for(number)}
            body["parallel_tool_calls"] = False
        else:
            text = turn.text if turn else "There is nothing left to do."
            body["structured_outputs"] = {"choice": [text]}
            body["logit_bias"] = {str(token): 100} if turn else {}

    def restore(self, event):
        held = [event["item"]] if "item" in event else event.get("response", {}).get("output", [])
        for item in held:
            if item.get("type") == "function_call" and item["name"].startswith("t"):
                number = int(item["name"][1:])
                self.calls[item["call_id"]] = number
                item["name"] = self.turns[number - 1].tool
        if event["type"] == "response.function_call_arguments.done":
            event["name"] = self.turns[int(event["name"][1:]) - 1].tool
        return event["type"].endswith(".delta")

    def usage(self, event):
        usage = event.get("response", {}).get("usage")
        return usage and (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"])
