"""Opening an index folder as a source, whatever kind it is and whoever made it."""

from __future__ import annotations

from pathlib import Path

from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.knowledge.manifest import MANIFEST, Bm25Settings, read_manifest
from madke.knowledge.pyserini import is_faiss, is_lucene


def open_index(name: str, folder: Path, *, encoder: str | None = None, texts: Path | None = None) -> Source:
    """The source over the index in ``folder``; ``name`` is what its passages are marked with.

    Args:
        name: The source's name.
        folder: An index folder of ours, or a Lucene or FAISS folder in pyserini's format.
        encoder: For a FAISS folder of pyserini's, which does not say: what encodes the queries.
        texts: For a FAISS folder of pyserini's, which holds none: the index that holds the passages' texts.

    Raises:
        UserError: There is no such folder, it is no index, or what it needs is missing.
    """
    if not folder.is_dir():
        raise UserError(
            f"source {name!r}: no folder {str(folder)!r}; expected an index folder, A+B, a .jsonl file of results, "
            "or serper"
        )
    ours = (folder / MANIFEST).exists()
    if not ours and is_faiss(folder):
        return _open_faiss(name, folder, encoder, texts)
    if encoder or texts:
        raise UserError(
            f"source {name!r}: encoder and texts are for a FAISS folder in pyserini's format, with the files index and "
            "docid, and this is none",
            file=folder,
        )
    if not ours and not is_lucene(folder):
        raise UserError(
            f"no index here: neither {MANIFEST} (built by `madke index build`), nor segments_N (Lucene), nor index "
            "and docid (FAISS, in pyserini's format)",
            file=folder,
        )
    if not ours or isinstance(read_manifest(folder).index, Bm25Settings):
        from madke.knowledge.sources.bm25 import Bm25Source

        return Bm25Source(folder, name=name)
    from madke.knowledge.sources.dense import DenseSource

    return DenseSource(folder, name=name)


def _open_faiss(name: str, folder: Path, encoder: str | None, texts: Path | None) -> Source:
    if encoder is None or texts is None:
        missing = [field for field, value in (("encoder", encoder), ("texts", texts)) if value is None]
        raise UserError(
            f"source {name!r}: a FAISS folder in pyserini's format says neither what encodes its queries nor what its "
            f"passages are; {' and '.join(missing)} must be given, in sources.yaml for instance: {name}: "
            "{index: FOLDER, encoder: facebook/dpr-question_encoder-multiset-base, texts: LUCENE_FOLDER}",
            file=folder,
        )
    from madke.knowledge.sources.dense import DenseSource

    return DenseSource(folder, name=name, encoder=encoder, texts=texts)
