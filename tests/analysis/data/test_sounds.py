"""Sounds: made ones are always the same and none is empty; recordings are read as they are, and others refused."""

import wave

import numpy as np
import pytest

from analysis.data import sounds


def write(path, samples, rate=16_000, width=2, channels=1):
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(np.asarray(samples, "<i2" if width == 2 else "u1").tobytes())
    return path


def test_made_sounds_are_the_same_each_time_and_differ_from_each_other():
    made, again = sounds.make(8), sounds.make(8)
    assert sounds.digest(made) == sounds.digest(again)
    assert len({sounds.digest([sound]) for sound in made}) == 8
    for sound in made:
        assert sound.dtype == np.float32
        assert len(sound) == 48_000
        assert np.abs(sound).max() == pytest.approx(0.3)


def test_a_rising_pitch_rises_an_octave():
    """Count the times that the first sound crosses 0 in its first and in its last tenth."""
    sound = sounds.make(1)[0]
    crossings = [np.count_nonzero(np.diff(np.sign(part)) > 0) for part in np.array_split(sound, 10)]
    assert crossings[-1] == pytest.approx(2 * crossings[0] * 2**-0.1, rel=0.15)


def test_recordings_are_read_in_the_order_of_their_names(tmp_path):
    write(tmp_path / "b.wav", [1, 2])
    write(tmp_path / "a.wav", [2**14, 0, -(2**14), 0], channels=2)
    first, second = sounds.read(tmp_path)
    np.testing.assert_allclose(first, [0.25, -0.25])  # the mean of two channels
    np.testing.assert_allclose(second, [2**-15, 2**-14])


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"rate": 8000}, "must have 16000 samples of 16 bits"), ({"width": 1}, "got 16000 of 8 bits"), ({}, "is empty")],
)
def test_what_is_no_such_recording_is_refused(options, reason, tmp_path):
    path = write(tmp_path / "a.wav", [1, 2] if options else [], **options)
    with pytest.raises(ValueError, match=reason):
        sounds.read(path)


def test_what_is_no_sound_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no sound at"):
        sounds.read(tmp_path / "a.wav")
    with pytest.raises(ValueError, match=r"holds no \.wav file"):
        sounds.read(tmp_path)
    (tmp_path / "a.wav").write_text("no sound")
    with pytest.raises(ValueError, match="cannot be read as a WAV file"):
        sounds.read(tmp_path)
    with pytest.raises(ValueError, match="count must be at least 1"):
        sounds.make(0)
