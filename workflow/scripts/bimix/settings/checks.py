"""The config checked before the first job: all of its faults at once.

`settle` takes the merged config as Snakemake has it. Paths are relative to the folder of `results`,
those of published tables to the `code` folder. Imported when needed only: yaml, Pydantic, polars.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from bimix.errors import InputError
from bimix.names import unknown
from bimix.settings.block import Findings
from bimix.settings.complete import Key, mixture_lists, write_out_recipes
from bimix.settings.datasets import DatasetChecker
from bimix.settings.defaults import Filled, fill
from bimix.settings.fault import Fault, listed
from bimix.settings.files import NO_TEXT, YTE, ConfigFile, line_of, place, read_config_file, source_text
from bimix.settings.home import over
from bimix.settings.several import SizesChecker
from bimix.training import command_checks as trainers

# Of code in a file of --configfile.
RAN = (
    "Snakemake reads --configfile before this check, so THE CODE HAS RUN. A stranger's config is a program: call"
    " `python workflow/scripts/check_config.py theirs.yaml` first, which runs nothing."
)


@dataclass(frozen=True)
class Settled:
    """A config without faults, its defaults in their places; what was chosen for datasets that
    leave it out, and remarks for the user to read.
    """

    config: dict
    filled: dict[str, Filled]
    remarks: list[str]


def settle(
    config: dict,
    defaults: dict,
    code: Path,
    files: Sequence[Path | str] = (),
    wanted: Iterable[str] = (),
    given: Mapping[str, object] = MappingProxyType({}),
    named: Iterable[str] = (),
) -> Settled:
    """A merged config, read by its models, completed and checked; numbers that name mixtures become
    text.

    `defaults`: the workflow's own, which lie beneath. `files` in the order in which they were
    merged, `given` what --config has put over them. The datasets in `wanted` are to be built: their
    files must be there and their laws be possible. Of those that are `named` by single targets,
    which may need no raw files, missing ones are remarked.
    Errors (InputError): all faults together, each with its key and, where a file has it, its line.
    """
    read = [read_config_file(path) for path in files]
    sources = [file for file, _ in read]
    faults = [fault for _, own in read for fault in own]
    told = any(fault.sentence.startswith(NO_TEXT) for fault in faults)
    of_keys, config = _text_keys(config)
    faults += [] if told else of_keys
    _as_text(config, sources)
    wanted = [name for name in wanted if isinstance(name, str)]
    settled, found, remarks = faults_of(config, defaults, code, wanted, named)
    return replace(settled, remarks=_placed(_without_derived(faults + found, sources), remarks, sources, given))


def placed(
    faults: Iterable[Fault], remarks: Iterable[Fault], files: Sequence[Path | str], given: Mapping[str, object]
) -> list[str]:
    """The remarks, where there are no faults, each with its key and line. Errors (InputError): all
    faults.
    """
    return _placed(faults, remarks, [read_config_file(path)[0] for path in files], given)


def _placed(
    faults: Iterable[Fault], remarks: Iterable[Fault], sources: Sequence[ConfigFile], given: Mapping[str, object]
) -> list[str]:
    if faults:
        raise InputError(listed(place(sources, fault, given) for fault in faults))
    return [str(place(sources, remark, given)) for remark in remarks]


def _without_derived(faults: list[Fault], sources: Sequence[ConfigFile]) -> list[Fault]:
    """The faults without those of keys that no file names and that come of what has a fault itself:
    domains of the corpus, the optimum's step of a model's training.
    """

    def is_derived(fault: Fault) -> bool:
        own, rest = fault.key[:2], fault.key[2:]
        origins = {("domains",): [(*own, "corpus")], ("optimum", "step"): [(*own, "training"), ("training",)]}
        for key, of in origins.items():
            broken = any(other.key[: len(one)] == one for other in faults for one in of)
            named = any(file.root is not None and line_of(file, (*own, *key)) for file in sources)
            if rest[: len(key)] == key and broken and not named:
                return True
        return False

    return [fault for fault in faults if not (sources and is_derived(fault))]


def as_text(config: dict, files: Sequence[Path | str] = ()) -> None:
    """What `settle` does to the names in a config that is known to have no faults."""
    _as_text(config, [read_config_file(path)[0] for path in files])


def check_results(folder: Path) -> None:
    """Refuse a link to a disk that is not there, or a file, in the place of the folder of results
    (InputError).
    """
    if folder.is_dir() or not (folder.exists() or folder.is_symlink()):
        return
    what = f"a link to {folder.readlink()}, which is not there" if folder.is_symlink() else "a file"
    raise InputError(f"{folder} is {what}: it must be a folder, or be made anew.")


def check_files(files: Sequence[Path | str], read_before: Sequence[Path | str] = ()) -> None:
    """Refuse files that are no config, or hold code, before Snakemake reads them: it would run that
    code. Refuse a Python that does not read names of files as UTF-8 (InputError).

    Of the files that --configfile names, `read_before`, it has run already: Snakemake reads these
    before it reads a Snakefile.
    """
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise InputError(f"Python reads names of files as {encoding} here, and they are UTF-8: set PYTHONUTF8=1.")
    read = [read_config_file(path) for path in files]
    if any(file.root is None or any(fault.code for fault in faults) for file, faults in read):
        early = {str(path) for path in read_before}
        faults = [fault for _, own in read for fault in own]
        raise InputError(
            listed(
                replace(fault, sentence=f"{fault.sentence} {RAN}")
                if fault.key == (YTE,) and fault.file in early
                else fault
                for fault in faults
            )
        )


def shipped(path: Path) -> dict:
    """A file of YAML that comes with the workflow, read by libyaml where there is one: in an eighth
    of the time.
    """
    import yaml

    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def merged(files: Sequence[Path | str]) -> dict:
    """The files as one config, the later ones over the earlier, as Snakemake merges them; without
    code.
    """
    import yaml

    config: dict = {}
    for path in files:
        text = Path(path).read_text(encoding="utf-8-sig")
        own = yaml.safe_load(text.expandtabs())
        own.pop(YTE, None)
        config = over(config, own)
    return config


def faults_of(
    config: dict, defaults: dict, code: Path, wanted: Iterable[str] = (), named: Iterable[str] = ()
) -> tuple[Settled, list[Fault], list[Fault]]:
    """A merged config with its defaults in their places, and its faults and remarks, without
    places.
    """
    from bimix.settings import typed

    # a block whose kind is not known has no further faults: all of its keys would be
    unknown_kind = _of_kind_unknown(config)
    without = {fault.key[1] for fault in unknown_kind}
    if without:
        config = config | {"datasets": {name: one for name, one in config["datasets"].items() if name not in without}}
    sound, refused = typed.accepted(config)
    settled = over({key: own for key, own in defaults.items() if key != "datasets"}, sound)
    # a block is of losses measured elsewhere though what it says of them is refused
    typed.put_back(settled, [fault for fault in refused if fault.key[2:] == ("observations",)], config)
    try:
        filled = fill(settled)
    except InputError:
        if not refused:
            raise
        return Settled(settled, {}, []), [*unknown_kind, *refused], []
    found = write_out_recipes(settled)
    sound, further = typed.accepted(settled)
    # defaults that come of what is refused are no faults of their own
    further = [fault for fault in further if not any(fault.key[:2] == other.key[:2] for other in refused)]
    broken = [fault.key for fault in (*refused, *found, *further)]
    found += [*unknown_kind, *refused, *further, *typed.incomplete(sound, broken)]
    typed.put_back(settled, refused, config)
    checker = Checker(settled, code, frozenset(wanted), found, frozenset(named))
    checker.whole()
    return Settled(settled, filled, []), checker.faults, checker.remarks


def _of_kind_unknown(config: dict) -> list[Fault]:
    """Blocks that are neither a corpus nor observations because the key that says so is
    misspelt.
    """
    found = []
    datasets = config.get("datasets")
    for name, block in datasets.items() if isinstance(datasets, dict) else ():
        if isinstance(block, dict) and not {"observations", "corpus"} & block.keys():
            for key in block:
                if re.fullmatch("obs.*", str(key)):
                    found.append(Fault(("datasets", name, key), "unknown key; did you mean observations?"))
    return found


def _text_keys(config: dict) -> tuple[list[Fault], dict]:
    """The config with text for all keys, and a fault for each key that was none; blocks of x-...
    are as they are.
    """
    faults: list[Fault] = []

    def copy(value: object, key: Key) -> object:
        if isinstance(value, dict):
            for name in value:
                if not isinstance(name, str):
                    faults.append(Fault((*key, str(name)), f'{NO_TEXT} text; quote it: "{name}".'))
            return {str(name): copy(one, (*key, str(name))) for name, one in value.items()}
        return [copy(one, (*key, number)) for number, one in enumerate(value)] if isinstance(value, list) else value

    checked = {
        str(key): value if str(key).startswith("x-") else copy(value, (str(key),)) for key, value in config.items()
    }
    return faults, checked


def _as_text(config: dict, sources: Sequence[ConfigFile]) -> None:
    """Write one dataset to `run` as a list, and mixtures that are named by numbers as text, as the
    file spells them.
    """
    if isinstance(config.get("run"), str):
        config["run"] = [config["run"]]
    datasets = config.get("datasets")
    for name, block in datasets.items() if isinstance(datasets, dict) else ():
        for key, mixtures in mixture_lists(block):
            for number, mixture in enumerate(mixtures):
                if isinstance(mixture, int) and not isinstance(mixture, bool):
                    spelt = source_text(sources, ("datasets", name, *key, number))
                    mixtures[number] = spelt if spelt is not None else str(mixture)


class Checker(Findings):
    """What no model can say: names that stand elsewhere, numbers that go together, files.

    A check is left out where the models refuse something in what it reads.
    """

    def whole(self) -> None:
        config = self.config
        if self.sound(("run",)) and isinstance(config.get("datasets"), dict):
            for number, dataset in enumerate(config["run"]):
                if dataset not in config["datasets"]:
                    self.fault(("run", number), unknown("dataset", dataset, config["datasets"], "`datasets` has"))
        models = config["models"] if isinstance(config.get("models"), dict) else {}
        models = {model: own for model, own in models.items() if self.sound(("models", model))}
        for model, block in models.items():
            for own, sentence in trainers.of_model(block):
                self.fault(("models", model, *own), sentence)
            if "shape" in block:
                self.shape(("models", model, "shape"), block["shape"])
        if self.sound(("ladder",), ("training",)) and config["ladder"]["recipe"] not in config["training"]:
            sentence = unknown("recipe", config["ladder"]["recipe"], config["training"], "`training` has")
            self.fault(("ladder", "recipe"), sentence)
        datasets = config.get("datasets")
        for dataset, block in datasets.items() if isinstance(datasets, dict) else ():
            if isinstance(block, dict):
                check = DatasetChecker(self, dataset, block)
                check.observed() if "observations" in block else check.corpus()
                if "observations" not in block:
                    SizesChecker(self, dataset, block).whole()
                    for own, sentence in trainers.of_dataset(block, models):
                        self.fault(("datasets", dataset, *own), sentence)

    def shape(self, key: Key, shape: dict) -> None:
        """What `bimix.model.Shape` refuses."""
        width, heads = shape["width"], shape["heads"]
        if width % heads:
            self.fault((*key, "width"), f"{width} is not a multiple of heads, {heads}.")
        elif width // heads < 8 or width // heads // 4 % 2:
            self.fault(
                (*key, "width"),
                f"a quarter of the width of a head, {width} / {heads} = {width // heads}, must be even for the rotary"
                f" embedding; take a multiple of {8 * heads}.",
            )
