"""faults.yaml: each fault of a config with key and line, all at once, and no others."""

import json
import re
from pathlib import Path

import pytest
import yaml
from made_configs import FITTED_ONCE

from bimix.errors import InputError
from bimix.settings.layers import merged
from bimix.settings.prepare import Call, prepare

ROOT = Path(__file__).parents[2]
CASES = re.split(r"^---\n", (Path(__file__).parent / "faults.yaml").read_text(), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the cases name, small and of the kinds that they are of."""
    folder = tmp_path_factory.mktemp("faults")
    for name, size in (("a.txt", 300_000), ("b.txt", 200_000), ("empty.txt", 0), ("a.csv", 9)):
        (folder / name).write_bytes(b"word " * (size // 5))
    rows = [f"m{m},{step},{d},{3 - m / 9}" for m in (0, 1) for step in (10, 15, 20) for d in ("web", "code")]
    (folder / "losses.csv").write_text("\n".join(["mixture,step,domain,loss", *rows]))
    counted = [f"{row},{10 * int(row.split(',')[1])}" for row in rows]  # ten tokens a step
    (folder / "counted.csv").write_text("\n".join(["mixture,step,domain,loss,tokens", *counted]))
    shares = [f"m{m},{d},{share}" for m, web in ((0, 0.5), (1, 0.25)) for d, share in (("web", web), ("code", 1 - web))]
    (folder / "mixtures.csv").write_text("\n".join(["mixture,domain,proportion", *shares]))
    (folder / "metrics.csv").write_text("mixture,err\nm0,0.5\nm1,0.4\n")
    (folder / "tokens.csv").write_text("domain,tokens\nweb,10\ncode,5\n")
    stages = [{"share": 0.5, "mixture": {"web": 1}}, {"share": 0.5, "mixture": {"code": 1}}]
    (folder / "staged.json").write_text(json.dumps({"stages": stages}))
    (folder / "home/workflow").mkdir(parents=True)
    (folder / "home/workflow/defaults.yaml").write_text(yaml.safe_dump(merged(FITTED_ONCE), sort_keys=False))
    (folder / "home/resources").symlink_to(ROOT / "resources")
    return folder


def expected(text: str) -> list[tuple[int, str, str]]:
    """(line, key, words) of the marks in a case; line 0 of a mark on a line of its own."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        own, *marks = line.split("#! ")
        for mark in marks:
            key, _, words = mark.strip().partition(": ")
            found.append((number if own.strip() else 0, key, words))
    return found


def missed(case: str, home: Path) -> list[str]:
    """What is expected of a case and not said, or said and not expected."""
    own = Path("mine.yaml")
    own.write_text(case)
    files = [ROOT / "config.yaml", own]
    try:
        prepare(Call(home, f"{ROOT}/", files, 1, {}))
    except InputError as refused:
        lines = [line.strip() for line in str(refused).splitlines()]
    else:
        return [f"is taken:\n{case}"]
    lines = lines[1:] if len(lines) > 1 else [lines[0].removeprefix("config: ")]
    found = []
    for line, key, words in expected(case):
        place = f"mine.yaml:{line}: {key}: " if line else f"{key}: "
        met = [one for one in lines if one.startswith(place) and words in one]
        if met:
            lines.remove(met[0])
        else:
            found.append(f"{place}...{words}... is none of\n" + "\n".join(lines))
    return found + [f"not expected: {line}" for line in lines]


def test_faults_are_reported_at_their_lines(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    assert len(CASES) > 30
    found = {number: missed(case, workplace / "home") for number, case in enumerate(CASES)}
    assert not any(found.values()), "\n".join(f"{number}: {one}" for number in found for one in found[number])
