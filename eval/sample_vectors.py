"""Make the vectors of the sample passages that ship with them: ``python -m eval.sample_vectors`` after a change."""

from __future__ import annotations

import numpy as np

from madke._util.assets import asset
from madke.models.encoders import load_encoder
from madke.retrieval.index_sources import SampleSource, vectors_file


def main() -> None:
    """Encode, and replace the file."""
    folder = asset("indexes", "sample")
    vectors = SampleSource("dense", name="wiki").encode()
    for old in folder.glob("minilm-*.npy"):
        old.unlink()
    file = vectors_file(folder, load_encoder("minilm"))
    np.save(file, vectors)
    print(f"{file}: {vectors.shape[0]} vectors, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
