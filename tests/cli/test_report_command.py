import anyio


def test_the_page_goes_into_the_run_folder(strop, runs):
    said = strop("report", "--runs", runs)
    page = runs / "toy-1" / "report.html"
    assert said.out.strip() == str(page.resolve())
    text = page.read_text()
    assert "toy subject: error 0.25 &rarr; 0.125" in text
    assert '<script>alert("strop")' not in text
    assert "</pre><script>alert(1)" not in text
    assert "&lt;/pre&gt;&lt;script&gt;alert(1)" in text


def test_the_page_goes_where_it_is_asked_to(strop, runs, tmp_path):
    out = tmp_path / "new folder" / "morning.html"
    assert strop("report", "--runs", runs, "--out", out).code == 0
    assert out.stat().st_size > 1_000_000
    assert list(out.parent.iterdir()) == [out]
    assert not (runs / "toy-1" / "report.html").exists()


def test_a_place_that_cannot_be_written_is_said(strop, runs):
    said = strop("report", "--runs", runs, "--out", "/proc/none/report.html")
    assert said.code == 3
    assert "cannot write /proc/none/report.html" in said.err


def test_a_run_that_is_not_over_has_a_page(strop, tmp_path, build):
    anyio.run(lambda: build(tmp_path / "runs" / "half", tickets=2, finished=False))
    assert strop("report", "half", "--runs", tmp_path / "runs").code == 0
    assert "not opened yet" in (tmp_path / "runs" / "half" / "report.html").read_text()
