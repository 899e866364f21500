"""Sounds to run a model of speech on, without a network: made ones, or a reader's own.

* :func:`make`: sounds made of tones, clicks and noise. No recording comes with the package.
* :func:`read`: a reader's own recordings.

What a model is given of a sound belongs to the models.
"""

import hashlib
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from analysis.core.files import LARGEST, check_regular

RATE = 16_000
"""Samples per second."""
SECONDS = 3.0
COUNT = 12
"""How many sounds are made."""
LOUD = 0.3

Sound = Float[np.ndarray, " sample"]


def _tone(hertz: Sound | float, time: Sound) -> Sound:
    """Return a sine of a pitch that may change."""
    return np.sin(2 * np.pi * np.cumsum(np.broadcast_to(hertz, time.shape)) / RATE)


def _voice(pitch: float, resonances: Sequence[float], time: Sound) -> Sound:
    """Return a buzz with resonances, as vowels have them: overtones, louder the nearer a resonance."""
    overtones = np.arange(1, int(4000 / pitch)) * pitch
    loud = sum(np.exp(-((overtones - of) ** 2) / (2 * 120.0**2)) for of in resonances)
    return np.tensordot(loud, np.sin(2 * np.pi * overtones[:, None] * time), 1)


def make(count: int = COUNT, seconds: float = SECONDS) -> list[Sound]:
    """Return sounds that are made and not recorded, each time the same, with 16,000 samples per second.

    They take turns: a pitch that rises, clicks at a steady beat, a buzz with the resonances of a vowel that changes
    after each third of the sound, and noise in bursts. None of them is speech.

    Raises
    ------
    ValueError
        If ``count`` is below 1.

    Examples
    --------
    >>> len(make(3)), len(make(1, seconds=0.5)[0])
    (3, 8000)
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    generator = np.random.default_rng(0)
    time = np.arange(int(seconds * RATE)) / RATE
    sounds = []
    for number in range(count):
        pitch, beat = generator.uniform(90, 400), generator.uniform(2, 8)
        kind = number % 4
        if kind == 0:
            sound = _tone(pitch * 2 ** (time / seconds), time) + 0.3 * _tone(2 * pitch, time)
        elif kind == 1:
            sound = np.exp(-((time * beat % 1) / 0.01)) * _tone(1000.0, time)
        elif kind == 2:
            vowels = [_voice(pitch / 2, of, time) for of in ((730.0, 1090.0), (270.0, 2290.0), (300.0, 870.0))]
            sound = np.choose((3 * np.arange(len(time)) // len(time)).clip(max=2), vowels)
        else:
            sound = generator.standard_normal(len(time)) * (np.sin(np.pi * beat * time) > 0)
        quiet = sound + 1e-3 * np.abs(sound).max() * generator.standard_normal(len(time))
        sounds.append((LOUD * quiet / np.abs(quiet).max()).astype(np.float32))
    return sounds


def read(path: str | Path) -> list[Sound]:
    """Read recordings: a WAV file, or every ``.wav`` file of a folder in the order of their names.

    They must have 16,000 samples per second of 16 bits each; of several channels the mean is taken.

    Raises
    ------
    FileNotFoundError
        If there is nothing at ``path``.
    ValueError
        If a folder holds no ``.wav`` file, or a file is no such recording. The message names the file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no sound at {path}: give a .wav file, or a folder of them")
    files = sorted(path.glob("*.wav")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"the folder {path} holds no .wav file")
    return [_read_file(file) for file in files]


def _read_file(file: Path) -> Sound:
    try:
        check_regular(file, LARGEST)
        with wave.open(str(file), "rb") as sound:
            rate, width, channels = sound.getframerate(), sound.getsampwidth(), sound.getnchannels()
            samples = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        raise ValueError(f"{file} cannot be read as a WAV file: {error}") from error
    if (rate, width) != (RATE, 2):
        raise ValueError(f"{file} must have {RATE} samples of 16 bits per second, got {rate} of {8 * width} bits")
    mean = np.frombuffer(samples, "<i2").reshape(-1, channels).mean(1) / 2**15
    if not len(mean):
        raise ValueError(f"{file} is empty")
    return mean.astype(np.float32)


def digest(sounds: Sequence[Sound]) -> str:
    """Return the sha256 of all samples, in hexadecimal."""
    return hashlib.sha256(b"".join(np.asarray(sound, "<f4").tobytes() for sound in sounds)).hexdigest()
