"""Cutting a sequence into k-mers, and the vocabulary as a tokenizer that Hugging Face saves and loads."""

from collections.abc import Iterable
from pathlib import Path

K, STRIDE = 12, 9
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[MASK]")


def kmers(bases: str, k: int = K, stride: int = STRIDE) -> list[str]:
    """Cut a sequence into words of ``k`` bases, one every ``stride`` bases; what is left at the end is dropped.

    A sequence of n bases has ``(n - k) // stride + 1`` of them (section 2.2 of the paper).

    >>> kmers("ACGTACGT", k=4, stride=3)
    ['ACGT', 'TACG']
    """
    if len(bases) < k:
        raise ValueError(f"a sequence of {len(bases)} bases holds no {k}-mer")
    return [bases[i : i + k] for i in range(0, len(bases) - k + 1, stride)]


def words(bases: str) -> str:
    """Return the k-mers of a sequence with blanks between them: the tokenizer's input."""
    return " ".join(kmers(bases))


def unknown_share(tokenizer, bases: str) -> float:
    """Return the share of a sequence's k-mers that the tokenizer's training part did not have.

    A classifier sees all of these as one and the same token, so at 1 it cannot tell two such sequences apart.
    """
    ids = tokenizer.convert_tokens_to_ids(kmers(bases))
    return ids.count(tokenizer.unk_token_id) / len(ids)


def build_tokenizer(sequences: Iterable[str], positions: int = 512):
    """Build the tokenizer whose vocabulary is the unique k-mers of the training sequences, [CLS] first.

    Parameters
    ----------
    sequences
        Bases of the training set, and of nothing else: what the test set alone holds must be unknown.

    Returns
    -------
    transformers.PreTrainedTokenizerFast
        Call it on :func:`words`; ``save_pretrained`` and ``AutoTokenizer.from_pretrained`` need no code of ours.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    unique = sorted({word for bases in sequences for word in kmers(bases)})
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *unique])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", vocabulary["[CLS]"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        mask_token="[MASK]",
        model_max_length=positions,
        model_input_names=["input_ids", "attention_mask"],
    )


def load_tokenizer(folder: str | Path):
    """Load a saved tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
