"""Tables with a column a domain give the rows of tidy ones, or say what is needed."""

import json

import polars as pl
import pytest
from refusals import refused

import mix_given
import take_observations
from bimix.errors import InputError
from bimix.observations.observations import observations
from bimix.observations.tables import read_losses, read_mixtures
from bimix.plan.dataset import Dataset
from bimix.tables import MOST_ROWS

MIXTURES = pl.DataFrame(
    {
        "mixture": ["7", "7", "two", "two"],
        "domain": ["web", "code", "web", "code"],
        "proportion": [0.25, 0.75, 1.0, 0.0],
    }
)
LOSSES = pl.DataFrame(
    {
        "mixture": ["7", "7", "two", "two"],
        "step": [10, 10, 10, 10],
        "domain": ["web", "code", "web", "code"],
        "loss": [3.0, 2.0, 2.5, 4.0],
    }
)


def write(path, text):
    path.write_text(text)
    return path


WIDE_MIXTURES = "mixture,web,code\n7,0.25,0.75\ntwo,1,0\n"
WIDE_LOSSES = "mixture,step,web,code\n7,10,3,2\ntwo,10,2.5,4\n"


def test_wide_tables_are_those_that_tidy_ones_say(tmp_path):
    for losses in (WIDE_LOSSES, "step,eval/code/loss,mixture,eval/web/loss\n10,2,7,3\n10,4,two,2.5\n"):
        for mixtures in (WIDE_MIXTURES, "domain,7,two\nweb,0.25,1\ncode,0.75,0\n"):
            shares = read_mixtures(write(tmp_path / "m.csv", mixtures))
            taken = read_losses(write(tmp_path / "l.csv", losses), ["web", "code"])
            assert "one column for each" in shares.remark and "one column for each domain" in taken.remark
            wide, tidy = observations(taken.table, shares.table), observations(LOSSES, MIXTURES)
            assert set(wide.mixtures) == set(tidy.mixtures) and wide.domains == tidy.domains
            order = [wide.mixtures.index(name) for name in tidy.mixtures]
            assert wide.take(order).losses.tolist() == tidy.losses.tolist()
            assert wide.take(order).proportions.tolist() == tidy.proportions.tolist()


def test_tables_of_other_tools_are_read(tmp_path):
    """Another name of the first column, capitals, another separator, decimal commas."""
    for mark in (",", ";", "\t"):
        for called in ("run", "Name", "experiment", "index", " Model "):
            mixtures = WIDE_MIXTURES.replace("mixture", called).replace("7,", "07,").replace(",", mark)
            losses = f"{called},Step,Domain,LOSS\n07,10,web,3.5\n07,10,code,2\ntwo,10,web,2.5\ntwo,10,code,4\n"
            losses = losses.replace(",", mark)
            if mark == ";":
                losses = losses.replace(".", ",")
            shares = read_mixtures(write(tmp_path / "m.csv", mixtures))
            taken = read_losses(write(tmp_path / ("l.tsv" if mark == "\t" else "l.csv"), losses), ["web", "code"])
            observed = observations(taken.table, shares.table)
            assert observed.mixtures == ("07", "two") and observed.domains == ("code", "web")
            assert observed.losses[:, 0].tolist() == [[2, 3.5], [4, 2.5]]
            assert observed.proportions.tolist() == [[0.75, 0.25], [0, 1]]


def test_marks_of_spreadsheets_percents_and_row_numbers_are_read(tmp_path):
    for mark in ("", "\ufeff"):
        for mixtures in (
            "sep=;\nmixture;web;code\n7;0,25;0,75\ntwo;1;0\n",
            '"sep=,"\nmixture,web,code\n7,25%,75%\ntwo,100 %,0%\n',
            "mixture ,web ,\u00a0code\n7 ,0.25,0.75\n two,1,0\n",
            "mixture;web;code\n7;25,0%;75,0%\ntwo;100%;0%\n",
            "mixture,domain,proportion\n7,web,25%\n7,code,75%\ntwo,web,100%\n",
            "Unnamed: 0,mixture,web,code\n0,7,0.25,0.75\n1,two,1,0\n",
            ",mixture,web,code\n0,7,0.25,0.75\n1,two,1,0\n",
        ):
            shares = read_mixtures(write(tmp_path / "m.csv", mark + mixtures))
            losses = ",Unnamed: 0," + WIDE_LOSSES.replace("\n7", "\n0,0,7").replace("\ntwo", "\n1,1,two")
            taken = read_losses(write(tmp_path / "l.csv", mark + losses), ["web", "code"])
            observed = observations(taken.table, shares.table)
            assert observed.mixtures == ("7", "two") and observed.remarks == ()
            assert observed.proportions.tolist() == [[0.75, 0.25], [0, 1]]


def test_mixtures_across_may_be_called_as_columns_and_lines_not_utf_8_are_named(tmp_path):
    shares = read_mixtures(write(tmp_path / "m.csv", "domain,run,Model\nweb,0.25,1\ncode,0.75,0\n"))
    assert shares.names("mixture") == ["run", "Model"]
    shares = read_mixtures(write(tmp_path / "m.csv", "mixture,name,index\na,0.25,0.75\n"))
    assert shares.names("domain") == ["name", "index"]
    # a line that is not utf 8 is named
    (tmp_path / "m.csv").write_bytes("mixture,domain,proportion\na,web,0.5\na,caf\xe9,0.5\n".encode("latin-1"))
    refused(r"m\.csv, line 3 is not UTF-8 \(near 'a,café,0\.5'\)", read_mixtures, tmp_path / "m.csv")
    (tmp_path / "m.csv").write_bytes("mixture,caf\xe9\na,1\n".encode("latin-1"))
    refused(r"m\.csv, line 1 is not UTF-8 \(near 'mixture,café'\)", read_mixtures, tmp_path / "m.csv")


def test_a_parquet_file_is_not_read_before_its_rows_are_counted(tmp_path):
    """Some kB that say of themselves that they are gigabytes."""
    path = tmp_path / "m.parquet"
    pl.select(mixture=pl.repeat(1, MOST_ROWS + 1, dtype=pl.Int8)).write_parquet(path, statistics=False)
    assert path.stat().st_size < 2**20
    refused("m.parquet has 20,000,001 rows: a table of losses or mixtures has 20,000,000", read_mixtures, path)


WRONG = [
    (
        "mixture,step,web,code,lr\n7,10,3,2,0.1\n",
        WIDE_MIXTURES,
        "l.csv: column 'lr' is no domain of the mixtures, which are web, code: take it out, or write one row for one"
        " loss: mixture,step,domain,loss as in m1,1000,web,3.21.",
    ),
    ("who,web,code\n7,3,2\n", WIDE_MIXTURES, "l.csv has no column 'mixture' but who, web, code: it needs one row"),
    (WIDE_LOSSES, "who,web,code\n7,0.25,0.75\n", "m.csv has the columns who, web, code: it needs one row for one"),
    (WIDE_LOSSES, "who,web,code\n7,1,0\n", "tabs. None is called mixture, run, name, experiment, index or model."),
    (WIDE_LOSSES, "who|web|code\n7|1|0\n", "columns are separated by commas, semicolons or tabs."),
    (
        "name,run,step,web\n7,a,10,3\n",
        WIDE_MIXTURES,
        "l.csv has no column 'mixture' but name and run: call the right one",
    ),
    ("mixture,step,wbe,code\n7,10,3,2\n", WIDE_MIXTURES, "column 'wbe' is no domain of the mixtures, which are web"),
    ("mixture,step,wbe,code\n7,10,3,2\n", WIDE_MIXTURES, "code: did you mean web? take it out, or write"),
    (WIDE_LOSSES, "mixture,web,date\n7,0.25,May\n", "m.csv: column 'date' holds no numbers: take it out, or write"),
    ("mixture,step,web,code\n7,10,x,2\n", WIDE_MIXTURES, "l.csv: column 'web' holds no numbers: take it out, or write"),
    ("mixture,step,web,code\n7,10,3,2\ntwo,10,3,5,4\n", WIDE_MIXTURES, "l.csv, line 3 has 5 cells, and the header 4: "),
    # what programs write for themselves, and damage
    ("", WIDE_MIXTURES, "l.csv is empty: it needs a line with the names of the columns, and a line for each row."),
    (WIDE_LOSSES, "\n\n", "m.csv is empty: it needs a line"),
    ("sep=;\n" + WIDE_LOSSES.replace(",", ";").replace("2.5", "x"), WIDE_MIXTURES, "l.csv, line 4: web is 'x': it"),
    (WIDE_LOSSES, "mixture,web,code,total\n7,0.25,0.75,1\ntwo,0.5,0.5,1\n", "m.csv: column 'total' is 1 in each row"),
    (WIDE_LOSSES, "mixture,web,code,id\n7,0.25,0.75,1\ntwo,0.5,0.5,2\n", "mixture 'two' sum to 3 ('id' alone has 2)"),
    (WIDE_LOSSES, "# of wandb, today\n" + WIDE_MIXTURES, "m.csv, line 1 is '# of wandb, today': the first line"),
    (WIDE_LOSSES.replace("\n", "\r"), WIDE_MIXTURES, "l.csv, line 1 ends in a carriage return (CR) alone: save"),
    (WIDE_LOSSES.replace("two", '"two'), WIDE_MIXTURES, "l.csv, line 3: a quote there is opened and not closed"),
    (WIDE_LOSSES.replace("10,2", '10,"2"3'), WIDE_MIXTURES, "l.csv, line 3: a quote there is opened and not closed"),
    (WIDE_LOSSES.replace("2.5", "NA"), WIDE_MIXTURES, "l.csv, line 3: web is 'NA': it must be a number, or empty for"),
    (WIDE_LOSSES, WIDE_MIXTURES.replace("0.75", "3/4"), "m.csv, line 2: code is '3/4': it must be a number, or"),
    ("mixture,step,domain,loss\n7,10,web\n", WIDE_MIXTURES, "l.csv, line 2: loss is empty: it must be a number."),
    ("mixture,step,domain,loss,metric\n7,10,web,3,bpb\n", WIDE_MIXTURES, "l.csv: column 'metric' is true or false"),
    ("mixture,step,domain,loss,seed\n7,10,web,3,1\n7,11,web,3,\n", WIDE_MIXTURES, "l.csv, line 3: seed is empty"),
    ("mixture,step,domain,loss\nzzz,10,web,3\n", WIDE_MIXTURES, "no proportions in m.csv: add its rows there"),
    ("mixture,step,domain,loss\ntow,10,web,3\n", WIDE_MIXTURES, "no proportions in m.csv: did you mean two? add its"),
    # the line of the file, also where a table was wide or lines are blank
    (WIDE_LOSSES, "mixture,web,code\n7,0.25,0.75\n\ntwo,1,1\n", "m.csv, line 4 and on: the proportions of mixture"),
    ("mixture,step,web,code\n7,10,3,2\ntwo,10,-1,4\n", WIDE_MIXTURES, "l.csv, line 3 (mixture 'two', step 10, domain"),
]


def test_what_can_be_read_in_no_way_shows_the_tidy_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--losses", "l.csv", "--mixtures", "m.csv", "--names", "--group-losses", "out/l.parquet"]
    for losses, mixtures, words in WRONG:
        write(tmp_path / "l.csv", losses)
        write(tmp_path / "m.csv", mixtures)
        refused(words, take_observations.main, [*arguments, "--group-mixtures", "out/m.parquet"])
        assert not (tmp_path / "out").exists()


def test_a_group_and_a_mixture_are_taken_out_of_wide_tables(tmp_path, capsys):
    mixtures = write(tmp_path / "m.csv", WIDE_MIXTURES)
    losses = write(tmp_path / "l.csv", WIDE_LOSSES)
    take_observations.main(
        [
            *("--losses", str(losses), "--mixtures", str(mixtures), "--names", "two"),
            *("--group-losses", str(tmp_path / "l.parquet"), "--group-mixtures", str(tmp_path / "m.parquet")),
        ]
    )
    assert "m.csv is read as a table of mixture and one column for each domain: web, code." in capsys.readouterr().err
    assert pl.read_parquet(tmp_path / "l.parquet").select(LOSSES.columns).rows() == LOSSES[2:].rows()
    assert pl.read_parquet(tmp_path / "m.parquet").select(MIXTURES.columns).rows() == MIXTURES[2:].rows()
    mix_given.main(["--mixture", str(mixtures), "--name", "7", "--out", str(tmp_path / "7.json")])
    assert json.loads((tmp_path / "7.json").read_text()) == {"code": 0.75, "web": 0.25}
    with pytest.raises(InputError, match=r"m\.csv has no mixture 'three'; it has 7, two\."):
        mix_given.main(["--mixture", str(mixtures), "--name", "three", "--out", str(tmp_path / "3.json")])


def test_a_run_on_what_a_law_proposed_is_in_no_group_of_all(tmp_path, capsys):
    """Fitted, it would move the law, and another mixture would take its name."""
    names = ("a", "b", "c", "transfer", "bimix_swarm", "transferred")
    mixed = "mixture,web,code\n" + "".join(f"{name},{0.1 * n:.1f},{1 - 0.1 * n:.1f}\n" for n, name in enumerate(names))
    mixtures = write(tmp_path / "m.csv", mixed)
    losses = write(tmp_path / "l.csv", "mixture,step,web,code\n" + "".join(f"{name},10,3,2\n" for name in names))
    flags = ["--losses", str(losses), "--mixtures", str(mixtures)]
    flags += ["--group-losses", str(tmp_path / "l.parquet"), "--group-mixtures", str(tmp_path / "m.parquet"), "--names"]
    take_observations.main(flags)
    for name in ("l.parquet", "m.parquet"):
        assert pl.read_parquet(tmp_path / name)["mixture"].unique().sort().to_list() == ["a", "b", "c", "transferred"]
    assert "called as what a law proposes: bimix_swarm, transfer." in capsys.readouterr().err
    block = {"groups": {"all": []}, "optimum": {"group": "all"}, "observations": {"losses": str(losses)}}
    config = {"datasets": {"seen": block}}
    assert Dataset(config, "seen").fitted_size()[0] == 4
    take_observations.main([*flags, "a", "transfer"])
    assert pl.read_parquet(tmp_path / "m.parquet").filter(mixture="transfer")["proportion"].to_list() == [0.3, 0.7]
    block["groups"] = {"all": ["a", "transfer"]}
    assert Dataset(config, "seen").fitted_size()[0] == 2
