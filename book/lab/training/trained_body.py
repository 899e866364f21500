"""A trained body under a new vocabulary: fine-tuning that begins with somebody else's layers and fresh token rows."""

import torch
from torch import nn

from analysis.models import checkpoints, pretrained

TABLE = "embeddings.word_embeddings.weight"


@torch.no_grad()
def copy_body(body: nn.Module, start: str, tokenizer) -> tuple[str, ...]:
    """Copy the layers, positions and pooler of a trained BERT into a body of the same sizes, in place.

    The token table stays as it was initialised but for the rows of the special tokens that both vocabularies have:
    this is how the authors of "The geometry of BERT" add k-mers to bert-base-cased.

    ``start`` is a name or a folder, as :func:`analysis.models.checkpoints.find` takes it. Return the special tokens
    whose rows were copied; refuse a start of other sizes, naming the first tensor that differs.
    """
    checkpoint = checkpoints.find(start)
    trained, words = pretrained.load(checkpoint).state_dict(), pretrained.tokenizer(checkpoint).get_vocab()
    own = body.state_dict()
    for name in sorted(own.keys() - {TABLE}):
        if name not in trained or trained[name].shape != own[name].shape:
            has = tuple(trained[name].shape) if name in trained else "nothing"
            raise ValueError(f"{start} cannot be the start: {name} has {has} there, {tuple(own[name].shape)} here")
        own[name].copy_(trained[name])
    if own[TABLE].shape[1] != trained[TABLE].shape[1]:
        raise ValueError(
            f"{start} cannot be the start: its rows have {trained[TABLE].shape[1]} coordinates, not "
            f"{own[TABLE].shape[1]}"
        )
    shared = tuple(token for token in tokenizer.all_special_tokens if token in words)
    for token in shared:
        own[TABLE][tokenizer.convert_tokens_to_ids(token)] = trained[TABLE][words[token]]
    return shared
