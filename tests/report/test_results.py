import csv
import io

from harness.report.results import results_tsv


def rows(view):
    return list(csv.DictReader(io.StringIO(results_tsv(view)), delimiter="\t", quoting=csv.QUOTE_NONE))


def test_the_columns_are_autoresearchs_with_the_metric_under_its_name(view):
    assert results_tsv(view).splitlines()[0] == "commit\terror\tmemory_gb\tstatus\tdescription"


def test_a_crash_has_an_empty_metric(view):
    crashed = [row for row in rows(view) if row["status"] == "crash"]
    assert crashed
    assert all(row["error"] == "" for row in crashed)
    assert "0.000000" not in results_tsv(view)


def test_memory_is_the_most_that_a_visible_run_held_and_empty_where_nothing_ran(view):
    found = [row["memory_gb"] for row in rows(view)]
    assert found[1] == "0.500"
    assert set(found[:1] + found[2:]) == {""}


def test_there_is_one_line_for_the_baseline_and_each_ticket_whatever_it_says(view):
    found = rows(view)
    assert len(found) == 1 + len(view.tickets)
    assert found[0]["description"] == "baseline"
    assert {row["status"] for row in found} == {"keep", "discard", "crash"}
    assert all(len(line.split("\t")) == 5 for line in results_tsv(view).splitlines())
