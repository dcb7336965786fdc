"""States on disk without a training: what is kept and chosen, the lock, the curves."""

import errno
import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
from refusals import refused

from bimix.errors import InputError, run
from bimix.settings import lock
from bimix.training import artefacts, checkpoints


def save(folder: Path, *steps: int) -> None:
    folder.mkdir(exist_ok=True)
    for step in steps:
        checkpoints.save(folder, {"step": step, "numbers": torch.arange(5.0) + step})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.pt"))


def test_the_last_two_states_are_kept(tmp_path: Path) -> None:
    save(tmp_path, 9, 100, 20)
    assert names(tmp_path) == ["step-000000020.pt", "step-000000100.pt"]
    state, (name, checksum), complaints = checkpoints.choose(tmp_path)
    assert state["step"] == 100 and name == "step-000000100.pt" and not complaints
    assert state["numbers"].tolist() == [100, 101, 102, 103, 104]
    assert checkpoints.load(tmp_path / name, checksum, 0)["step"] == 100


def test_a_full_disk_costs_nothing_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, 2)
    for error in (OSError("No space left on device"), RuntimeError("unexpected pos")):

        def full(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(checkpoints.torch, "save", full)
        with pytest.raises(InputError, match=r"cannot be written.*make room and start again"):
            checkpoints.save(tmp_path, {"step": 3})
    assert names(tmp_path) == ["step-000000001.pt", "step-000000002.pt"]
    assert checkpoints.choose(tmp_path)[0]["step"] == 2


def test_the_state_that_another_process_has_chosen_or_none(tmp_path: Path) -> None:
    save(tmp_path / "one", 5)
    save(tmp_path / "other", 6)
    path = tmp_path / "one" / "step-000000005.pt"
    _, checksum = checkpoints.read(path)
    assert checkpoints.read(path, checksum)[1] == checksum
    other = checkpoints.read(tmp_path / "other" / "step-000000006.pt")[1]
    assert other != checksum
    with pytest.raises(checkpoints.Damaged, match="another file than the first process reads"):
        checkpoints.read(path, other)
    with pytest.raises(InputError, match="could not be read within 0 s"):
        checkpoints.load(path, other, 0)
    with pytest.raises(InputError, match=r"could not be read within 0 s.*FileNotFoundError"):
        checkpoints.load(tmp_path / "missing.pt", checksum, 0)


def test_what_comes_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 5)
    path, hidden = tmp_path / "step-000000005.pt", tmp_path / "hidden"
    checksum = checkpoints.read(path)[1]
    path.rename(hidden)
    waits = []

    def comes(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            hidden.rename(path)

    monkeypatch.setattr(checkpoints.time, "sleep", comes)
    assert checkpoints.load(path, checksum, 600)["step"] == 5 and len(waits) == 3


def flip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        content = archive.read(max(archive.infolist(), key=lambda member: member.file_size))
    whole = bytearray(path.read_bytes())
    whole[whole.index(content) + len(content) // 2] ^= 1
    path.write_bytes(bytes(whole))


def test_of_damaged_states_the_one_before_is_used_and_none_is_tried_again(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    flip(tmp_path / "step-000000002.pt")
    state, chosen, (said,) = checkpoints.choose(tmp_path)
    assert state["step"] == 1 and chosen[0] == "step-000000001.pt"
    assert "is not as it was written" in said and "was moved to" in said
    assert names(tmp_path) == ["step-000000001.pt"] and names(tmp_path / "damaged") == ["step-000000002.pt"]
    (tmp_path / "step-000000001.pt").write_bytes(b"short")
    with pytest.raises(InputError, match=r"None of the 2 checkpoints.*no whole archive"):
        checkpoints.choose(tmp_path)
    with pytest.raises(InputError, match=r"None of the 2 checkpoints.*all lie in"):
        checkpoints.choose(tmp_path)


def test_a_state_that_only_cannot_be_read_now_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, 2)
    real = checkpoints.read

    def refused(path: Path, checksum: str | None = None) -> tuple:
        if path.name == "step-000000002.pt":
            raise PermissionError("not now")
        return real(path, checksum)

    monkeypatch.setattr(checkpoints, "read", refused)
    state, _, (said,) = checkpoints.choose(tmp_path)
    assert state["step"] == 1 and "cannot be read (PermissionError: not now)" in said
    assert len(names(tmp_path)) == 2 and not (tmp_path / "damaged").exists()


def test_a_run_is_held_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = []
    monkeypatch.setattr(checkpoints.time, "sleep", sleeps.append)
    first = checkpoints.lock(tmp_path / "run", 0)
    assert not sleeps and not checkpoints.must_stop(tmp_path / "run")
    refused(f"Another process .* within 0 s.*{os.getpid()}", checkpoints.lock, tmp_path / "run", 0)
    assert not checkpoints.must_stop(tmp_path / "run")

    def ends(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 2:
            assert checkpoints.must_stop(tmp_path / "run"), "it is asked to stop"
            first.close()

    monkeypatch.setattr(checkpoints.time, "sleep", ends)
    second = checkpoints.lock(tmp_path / "run", 600)
    assert sleeps == [0.5, 0.5, checkpoints.SETTLING]
    assert not checkpoints.must_stop(tmp_path / "run") and len((tmp_path / "run/lock").read_text().splitlines()) == 1
    second.close()


def test_of_attempts_that_wait_the_newest_goes_on_and_the_run_changes_hands_once(tmp_path, monkeypatch) -> None:
    """The second attempt waits for the first when the third begins, which waits for it too."""
    run, calls = tmp_path / "run", []
    monkeypatch.setattr(checkpoints, "SETTLING", 0)
    first = checkpoints.lock(run, 0)

    def meanwhile(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 1:
            calls.append(checkpoints.lock(run, 600))
        elif len(calls) == 2:
            assert checkpoints.must_stop(run)
            first.close()

    monkeypatch.setattr(checkpoints.time, "sleep", meanwhile)
    with pytest.raises(InputError, match=r"A later attempt goes on with the training in .*/run, so this one ends"):
        checkpoints.lock(run, 600)
    third = next(call for call in calls if not isinstance(call, int | float))
    assert not third.closed and not checkpoints.must_stop(run), "nobody asks the newest to stop"
    third.close()


def test_an_attempt_that_gets_the_lock_before_a_newer_one_that_waits_leaves_it_to_that(tmp_path, monkeypatch) -> None:
    first = checkpoints.lock(tmp_path, 0)

    def meanwhile(_: float) -> None:
        (tmp_path / "stop").write_text("a newer attempt")
        first.close()

    monkeypatch.setattr(checkpoints.time, "sleep", meanwhile)
    with pytest.raises(InputError, match="A later attempt goes on"):
        checkpoints.lock(tmp_path, 600)
    assert (tmp_path / "stop").exists()
    checkpoints.lock(tmp_path, 0).close()
    assert not (tmp_path / "stop").exists()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(checkpoints.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(checkpoints.fcntl, "flock", refuse)
    with pytest.raises(InputError, match="cannot be locked"):
        checkpoints.lock(tmp_path, 600)


def test_no_link_is_followed_by_what_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run, precious = Path("results/mini/runs/proxy/even"), Path("precious")
    precious.write_text("of the user")
    own = run / "state/key"
    places = {
        Path("results/mini/.lock"): lambda: lock.hold("mini"),
        run / "state/lock": lambda: checkpoints.lock(run / "state", 0),
        own / "attempts.jsonl": lambda: checkpoints.note(own, "begun", 0),
    }
    for path, write in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(precious.absolute())
        refused(f"{path} is a link, and what it leads to is not written to", write)
    (run / ".progress.json.partial").symlink_to(precious.absolute())
    checkpoints.show_progress(own, {"step": 1})
    assert json.loads((run / "progress.json").read_text()) == {"step": 1}
    assert precious.read_text() == "of the user"


def test_room_for_the_checkpoints_is_asked_for_before_a_run_begins(tmp_path: Path, monkeypatch) -> None:
    checkpoints.check_room(tmp_path, 1000)
    refused("no room for 3 checkpoints of 1,000,000,000,000.0 MB", checkpoints.check_room, tmp_path, 10**18)

    def quota(*_: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "posix_fallocate", quota)
    refused("checkpoints of 0.1 MB each: Disk quota exceeded, with ", checkpoints.check_room, tmp_path, 10**5)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_a_sentence_wherever_a_script_writes(monkeypatch, capsys) -> None:
    def main() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "losses.parquet")

    monkeypatch.setattr("sys.argv", ["script.py"])
    assert run(main) == 1
    assert capsys.readouterr().err == "script.py: error: losses.parquet: No space left on device.\n"


def test_what_is_put_back_is_newer_than_its_inputs_and_a_link_or_a_copy(tmp_path: Path, monkeypatch) -> None:
    for name in ("state/losses.parquet", "losses.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / "state/losses.parquet").write_bytes(b"losses")
    os.utime(tmp_path / "state/losses.parquet", (1, 1))
    places = {"losses.parquet": tmp_path / "losses.parquet"}
    assert artefacts.deliver(tmp_path / "state", places) == [tmp_path / "losses.parquet"]
    assert (tmp_path / "losses.parquet").stat().st_mtime > 1
    assert (tmp_path / "losses.parquet").samefile(tmp_path / "state/losses.parquet"), "they share the room"

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    (tmp_path / "losses.parquet").unlink()
    monkeypatch.setattr(artefacts.os, "link", refuse)  # as some file systems do
    artefacts.deliver(tmp_path / "state", places)
    assert (tmp_path / "losses.parquet").read_bytes() == b"losses"


def test_attempts_are_lines_with_an_event(tmp_path: Path) -> None:
    assert checkpoints.attempts(tmp_path) == []
    checkpoints.note(tmp_path, "begun", 3, rows=5)
    (line,) = checkpoints.attempts(tmp_path)
    assert (line["event"], line["step"], line["rows"], line["process"]) == ("begun", 3, 5, os.getpid())
    with (tmp_path / "attempts.jsonl").open("a") as lines:
        lines.write('[1]\n{"step": 1}\n{"time": 1, "ev')  # the last one was cut short by a kill
    assert checkpoints.attempts(tmp_path) == [line]
    checkpoints.note(tmp_path, "ended", 4)
    assert [one["step"] for one in checkpoints.attempts(tmp_path)] == [3, 4]
    assert "\n\n" not in (tmp_path / "attempts.jsonl").read_text()


def test_a_key_has_whole_numbers_only_where_they_are(tmp_path: Path) -> None:
    assert checkpoints.key_of({"a": 2.0}) == checkpoints.key_of({"a": 2})
    assert len({checkpoints.key_of({"a": value}) for value in (2, 2.5, 3, "2", None, float("inf"))}) == 6
    # written down: folders of earlier runs have these names
    assert checkpoints.key_of({"b": 1.0, "a": "ä"}) == "14361a43fe2e3413"


def test_a_configuration_begins_beside_the_newest_other(tmp_path: Path) -> None:
    first, said = checkpoints.claim(tmp_path, {"steps": 10, "rate": 0.1})
    assert said is None and first.name == checkpoints.key_of({"steps": 10, "rate": 0.1})
    assert checkpoints.claim(tmp_path, {"rate": 0.1, "steps": 10.0}) == (first, None)
    second, said = checkpoints.claim(tmp_path, {"steps": 20, "rate": 0.1})
    assert f"kept in {first} and differs in steps: 10 there, 20 now;" in said
    os.utime(first / "fingerprint.json", (1, 1))
    third, said = checkpoints.claim(tmp_path, {"steps": 20, "rate": 0.2, "seed": 1})
    assert f"kept in {second} and differs in rate: 0.1 there, 0.2 now; seed: None there, 1 now;" in said
    assert len({first, second, third}) == 3
    half = [second / ".step-1.pt.7.partial", second / "weights/.x.7.partial", third / ".y.8.partial"]
    half.append(third / "weights/.tmpa1B2c3")  # safetensors writes under such a name, and is killed too
    for path in half:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    assert checkpoints.claim(tmp_path, {"steps": 20, "rate": 0.2, "seed": 1}) == (third, None)
    assert not any(path.exists() for path in half)


def test_half_written_outputs_are_swept_by_their_own_names(tmp_path: Path) -> None:
    gone, kept = [".a.json.7.partial", ".a.json.123.partial"], [".aXjson.7.partial", ".a.json.x.partial", "a.json"]
    for name in gone + kept:
        (tmp_path / name).write_text("")
    checkpoints.sweep([tmp_path / "a.json", tmp_path / "missing" / "b"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


FINGERPRINT = {"mixture.a": 0.5, "recipe.steps": 8}


def ended(run, fingerprint=FINGERPRINT):
    """A finished run's folder of its configuration."""
    (run / "state").mkdir(parents=True)
    own, _ = checkpoints.claim(run / "state", fingerprint)
    own.mkdir(exist_ok=True)
    (own / "losses.parquet").write_bytes(b"losses")
    (own / "step-8.pt").write_bytes(b"checkpoint")
    checkpoints.note(own, "finished", 8)
    artefacts.finish(own, {"seconds": 3}, ["losses.parquet"], {})
    return own


def test_it_is_taken_over_with_all_that_it_left_but_checkpoints(tmp_path) -> None:
    first = ended(tmp_path / "runs/proxy/round1")
    kept, damaged = checkpoints.kept_weights(first, 4), first / "damaged/step-4.pt"
    for path in (kept, damaged):
        path.parent.mkdir()
        path.write_bytes(b"weights")
    (tmp_path / "runs/proxy/round2/state").mkdir(parents=True)
    own, remark = checkpoints.claim(tmp_path / "runs/proxy/round2/state", FINGERPRINT)
    assert "taken over" in remark and own.name == first.name
    assert (own / "losses.parquet").samefile(first / "losses.parquet") and not (own / "step-8.pt").exists()
    assert checkpoints.kept_weights(own, 4).samefile(kept) and not (own / "damaged").exists()
    place = tmp_path / "runs/proxy/round2/losses.parquet"
    assert artefacts.is_finished(own, ["losses.parquet"])
    assert artefacts.deliver(own, {"losses.parquet": place}) == [place]
    assert json.loads((own / "run.json").read_text())["seconds"] == 3
    checkpoints.note(own, "restored", 8)
    assert len(checkpoints.attempts(own)) == 2 and len(checkpoints.attempts(first)) == 1


def test_what_differs_or_has_not_ended_or_is_no_run_is_not_taken_over(tmp_path) -> None:
    ended(tmp_path / "runs/proxy/uniform")
    ended(tmp_path / "mine/proxy/uniform")
    for name, taken in (("runs/proxy/again", True), ("mine/proxy/again", False)):
        (tmp_path / f"{name}/state").mkdir(parents=True)
        own, remark = checkpoints.claim(tmp_path / f"{name}/state", FINGERPRINT)
        assert ((own / "run.json").exists(), remark is not None) == (taken, taken), name
    first = ended(tmp_path / "runs/small/round1")
    state = tmp_path / "runs/small/round2/state"
    state.mkdir(parents=True)
    own, remark = checkpoints.claim(state, FINGERPRINT | {"recipe.steps": 9})
    assert remark is None and not (own / "run.json").exists()
    (first / "run.json").unlink()
    own, _ = checkpoints.claim(state, FINGERPRINT)
    assert not (own / "run.json").exists()
