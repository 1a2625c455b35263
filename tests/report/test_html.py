import re

from harness.records import Verdict
from harness.report.html import diff_lines, render, with_diff


def without_scripts(page):
    return re.sub(r"<script>.*?</script>", "", page, flags=re.S)


def test_the_page_needs_nothing_else(view):
    page = render(view)
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page)
    assert "default-src 'none'" in page
    assert page.count("<script>") == 2


def test_untrusted_text_is_encoded_everywhere(view):
    page = without_scripts(render(view))
    assert "<script" not in page
    assert "&lt;script&gt;alert(" in page
    assert "\x1b" not in page
    assert "{{ 7*7 }}" in page


def test_everything_a_claim_rests_on_is_on_the_page(view):
    page = render(view)
    for text in ("[0.22, 0.31]", "[0.1, 0.17]", "eps 0.091", "8 queries", "1 surprise", "0123456789abcdef" * 4):
        assert text in page
    assert "fedcba9876543210" * 4 in page
    assert page.count('<details class="ticket"') == len(view.tickets)


def test_a_run_without_isolation_is_marked(view_of):
    assert "no isolation" in render(view_of(3, isolation="process (no isolation)"))
    assert 'class="warn"' not in render(view_of(3))


def test_a_run_without_decisions_is_a_page(view_of):
    page = render(view_of(0))
    assert "No ticket has been decided yet." in page
    assert "Nothing beat the root" in page


def test_diff_lines_are_classed():
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n"
    assert [kind for kind, _ in diff_lines(patch)] == ["head", "head", "hunk", "del", "add", ""]


def test_diffs_are_bounded_and_the_kept_ones_come_first(view):
    kept = {ticket.ticket for ticket in view.tickets if ticket.verdict is Verdict.KEPT}
    size = len(view.tickets[0].patch)
    chosen = with_diff(view.tickets, limit=size * (len(kept) + 1))
    assert kept <= chosen
    assert len([ticket for ticket in view.tickets if ticket.ticket in chosen and ticket.patch]) == len(kept) + 1
    assert with_diff(view.tickets, limit=size - 1) == set()
