"""Running the encoder of a Whisper on sounds, which are to it what texts are to other models."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.configuration import read_configuration
from analysis.models.memory import check_memory

OF_SOUND = ("whisper",)
"""The ``model_type`` of models whose encoder is run on sounds."""
RATE = 16_000
"""Samples per second that such a model expects."""
SAMPLES = 320
"""Of one position: two frames of 160 samples each, which the model's second convolution joins."""


def reads_sound(checkpoint: Checkpoint) -> bool:
    """Return whether the encoder of a model is run on sounds.

    >>> from analysis.models.checkpoints import find
    >>> reads_sound(find("gpt2-mini"))
    False
    """
    return read_configuration(checkpoint).model_type in OF_SOUND


@cache
def encoder_class() -> type:
    """Return the class of an encoder alone; it is made when it is first needed, because transformers is slow to import.

    It differs from that of the library in one point: it takes a sound of any length up to that of its table of
    positions, of which it then uses the beginning.
    """
    from transformers.models.whisper.modeling_whisper import WhisperEncoder, WhisperPreTrainedModel

    class SoundEncoder(WhisperPreTrainedModel):
        """The encoder of a Whisper."""

        main_input_name = "input_features"

        def __init__(self, config):
            super().__init__(config)
            self.encoder = WhisperEncoder(config)
            self.post_init()

        def forward(self, features, **options):
            whole, table = self.config.max_source_positions, self.encoder.embed_positions
            needed = features.shape[-1] // 2
            if needed < whole:
                self.encoder.embed_positions = torch.nn.Embedding.from_pretrained(table.weight[:needed])
                self.config.max_source_positions = needed
            try:
                return self.encoder(features, **options)
            finally:
                self.encoder.embed_positions, self.config.max_source_positions = table, whole

    return SoundEncoder


def load_sound_encoder(
    checkpoint: Checkpoint, *, device: torch.device | str = "cpu", controls: int = 0
) -> torch.nn.Module:
    """Load the encoder of a Whisper in evaluation mode.

    Parameters
    ----------
    controls
        How many networks of the same size are to stand beside it: what they need must fit as well.

    Raises
    ------
    NotRunnable, ValueError
        As `pretrained.load`.
    MemoryError
        If the whole model, which is read first, does not fit, or the encoder and its controls.
    """
    whole = pretrained.load(checkpoint, dtype=None)
    encoder = encoder_class()(whole.config).to(whole.dtype)
    encoder.encoder.load_state_dict(whole.encoder.state_dict())
    del whole
    size = sum(parameter.numel() * parameter.element_size() for parameter in encoder.parameters())
    check_memory(size * (1 + controls), f"the encoder of {checkpoint.name} and its controls", device)
    return encoder.eval().requires_grad_(False).to(device)


def frames_of(
    sounds: Sequence[Float[np.ndarray, " sample"]], bands: int, positions: int
) -> list[Float[Tensor, "1 band frame"]]:
    """Return what a Whisper is given of each sound: log-mel frames, as the library's feature extractor makes them.

    Parameters
    ----------
    sounds
        With 16,000 samples per second, each at least one position long.
    bands
        Number of mel bins of the model.
    positions
        A sound is cut after so many, of 20 ms each.

    Examples
    --------
    >>> [frames] = frames_of([np.zeros(16_000)], bands=80, positions=10)
    >>> frames.shape
    torch.Size([1, 80, 20])
    """
    from transformers import WhisperFeatureExtractor

    extract = WhisperFeatureExtractor(feature_size=bands)
    given = []
    for sound in sounds:
        samples = np.asarray(sound, np.float32)[: positions * SAMPLES]
        whole = samples[: len(samples) // SAMPLES * SAMPLES]
        frames = extract(whole, sampling_rate=RATE, padding=False, return_tensors="pt")["input_features"]
        given.append(frames.float())
    return given


def name_positions(count: int) -> list[str]:
    """Name the positions of a sound by where they begin, in seconds.

    >>> name_positions(3)
    ['0.00 s', '0.02 s', '0.04 s']
    """
    return [f"{place * SAMPLES / RATE:.2f} s" for place in range(count)]
