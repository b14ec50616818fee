"""A batch whose models are asked from the nodes of a Ray cluster; without one, Ray starts on this machine.

Models are opened by name on every node, so they are names here, not objects.
"""

import madke

if __name__ == "__main__":
    run = madke.run(
        [
            "In which city was Verdi's opera Aida first performed?",
            "In what year was the Great Barrier Reef added to the World Heritage List?",
        ],
        model="offline",
        sources="wiki-bm25",
        options=madke.RunOptions(engine="ray", concurrency=2),
    )
    for transcript in run.transcripts():
        print(f"{transcript.question} {transcript.answer} ({len(transcript.rounds)} rounds)")
