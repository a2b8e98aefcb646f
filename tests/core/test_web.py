"""Which requests are refused: those of foreign pages, in whatever way they come."""

import pytest

from holdfast.core.web import is_local, refusal

HOST = ("host", "127.0.0.1:8765")
JSON = ("content-type", "application/json")


def status(method, *headers, local=True, has_page=True, limit=100):
    found = refusal(
        method,
        lambda name: [value for key, value in headers if key == name.lower()],
        local=local,
        has_page=has_page,
        limit=limit,
    )
    return found and found.status


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([HOST], None),
        ([HOST, ("origin", "http://127.0.0.1:8765")], None),
        ([("host", "LocalHost:8765"), ("origin", "http://localhost:8765")], None),
        ([("host", "[::1]:8765"), ("origin", "http://[::1]:8765")], None),
        ([HOST, ("origin", "http://127.0.0.1:8766")], 403),
        ([HOST, ("origin", "http://localhost:8765")], 403),
        ([HOST, ("origin", "http://127.0.0.1:8765.evil.example")], 403),
        ([HOST, ("origin", "http://evil.example")], 403),
        ([HOST, ("origin", "null")], 403),
        ([HOST, ("origin", "")], 403),
        ([HOST, ("origin", "http://127.0.0.1:8765"), ("origin", "http://evil.example")], 403),
        ([("host", "evil.example"), ("origin", "http://evil.example")], 421),
        ([("host", "127.0.0.1.evil.example")], 421),
        ([HOST, ("host", "evil.example")], 421),
        ([("host", "[")], 421),
        ([("host", "")], 421),
        ([], None),  # HTTP/1.0, which no browser speaks
    ],
)
def test_a_foreign_page_shows_in_its_origin_or_in_the_host(headers, expected):
    assert status("GET", *headers) == expected
    assert status("POST", *headers, JSON) == expected


def test_a_server_without_pages_refuses_every_origin():
    assert status("GET", HOST, ("origin", "http://127.0.0.1:8765"), has_page=False) == 403
    assert status("GET", HOST, has_page=False) is None


def test_with_a_token_it_may_have_any_name():
    assert status("GET", ("host", "lab:8765"), ("origin", "https://lab:8765"), local=False) is None
    assert status("GET", ("host", "lab:8765"), ("origin", "https://lab"), local=False) == 403


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["application/json"], None),
        (["Application/JSON; charset=utf-8"], None),
        ([], 415),
        (["text/plain"], 415),
        (["application/x-www-form-urlencoded"], 415),
        (["text/plain; application/json"], 415),
        (["application/json", "text/plain"], 415),
        (["application/jsonp"], 415),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_what_changes_something_is_json(method, kinds, expected):
    assert status(method, HOST, *(("content-type", kind) for kind in kinds)) == expected


@pytest.mark.parametrize("size", ["101", "-1", "1_0", "9" * 30, "", "1e1", "0x10"])
def test_a_body_that_is_too_long_is_refused_before_it_is_read(size):
    assert status("POST", HOST, JSON, ("content-length", size)) == 413
    assert status("POST", HOST, JSON, ("content-length", "100")) is None


def test_only_loopback_is_local():
    names = ("127.0.0.1", "127.1.2.3", "::1", "localhost", "0.0.0.0", "10.0.0.2", "lab", "")
    assert [is_local(name) for name in names] == [True] * 4 + [False] * 4
