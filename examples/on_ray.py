"""A batch whose models are asked from the nodes of a Ray cluster; without one, Ray starts on this machine.

Models are opened by name on every node, so they are names here, not objects.
"""

import madke

if __name__ == "__main__":
    run = madke.run(
        ["What is the deepest lake on Earth?", "Which river flows through Vienna?"],
        protocol="mad",
        model="offline",
        options=madke.RunOptions(engine="ray", concurrency=2),
    )
    for transcript in run.transcripts():
        print(f"{transcript.question} {transcript.status}, {len(transcript.rounds)} rounds")
