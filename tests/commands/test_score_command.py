from report.synthetic import write_run

from holdfast.cli import main


def test_score_exports_and_speaks_of_agreement(tmp_path, capsys):
    folder = write_run(tmp_path / "er", names=("stack_bowls",), heldout=False, trials=3)
    assert main(["score", str(folder), "--export", str(tmp_path / "all.csv")]) == 0
    assert "3 trials written" in capsys.readouterr().out
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 4
    assert main(["score", str(folder), "--agreement"]) == 0
    assert "No video was rated by two people yet" in capsys.readouterr().out


def test_score_refuses_what_makes_no_sense(tmp_path, capsys):
    folder = write_run(tmp_path / "er", names=("stack_bowls",), heldout=False, trials=0)
    for flags, problem in (
        (["--trials", "-1"], "--trials must be at least 0"),
        (["--port", "99999"], "--port must be between"),
        (["--host", "0.0.0.0"], "needs a token"),
        (["--import", str(tmp_path / "none.csv")], "cannot be read"),
    ):
        assert main(["score", str(folder), *flags]) == 2
        assert problem in capsys.readouterr().err
