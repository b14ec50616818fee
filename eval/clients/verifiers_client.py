"""verifiers 0.4: its ``vf-eval`` over a taskset of the questions, with a debate as the model of its agent.

``python verifiers_client.py BASE_URL QUESTIONS`` prints question -> answer as JSON; QUESTIONS is a JSON list.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TASKSET = """
import json
from pathlib import Path

import verifiers.v1 as vf


class AskedData(vf.TaskData):
    answer: str


class Asked(vf.Task[AskedData]):
    @vf.reward
    async def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)


class AskedTaskset(vf.Taskset[Asked, vf.TasksetConfig]):
    def load(self):
        for question in json.loads(Path("questions.json").read_text()):
            yield Asked(AskedData(prompt=question, answer="Lake 1"), self.config.task)


__all__ = ["AskedTaskset"]
"""

url, questions = sys.argv[1:]
with tempfile.TemporaryDirectory() as name:
    folder, scripts = Path(name), Path(sys.executable).parent
    (folder / "asked.py").write_text(TASKSET)
    (folder / "questions.json").write_bytes(Path(questions).read_bytes())
    agent = ("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess", "-c", "4", "--no-push")
    subprocess.run(
        [
            *(scripts / "vf-eval", "asked", *agent, "--model", "madke"),
            *("--client.base-url", url, "--client.api-key-var", "MADKE_KEY"),
        ],
        cwd=folder,
        # verifiers finds the taskset as a module, and runs its agent's program with uv.
        env={**os.environ, "PYTHONPATH": name, "MADKE_KEY": "none", "PATH": f"{scripts}:{os.environ['PATH']}"},
        stdout=sys.stderr,
        check=True,
    )
    episodes = [json.loads(line) for file in folder.glob("outputs/*/traces.jsonl") for line in file.open()]
    answers = {}
    for episode in episodes:
        asked, replied = (node["message"] for node in episode["traces"][0]["nodes"])
        answers[asked["content"]] = replied["content"]
    print(json.dumps(answers))
