import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.console.agreement import Agreement, cohens_kappa


def answers(both_yes, first_only, second_only, both_no):
    return (
        [(True, True)] * both_yes
        + [(True, False)] * first_only
        + [(False, True)] * second_only
        + [(False, False)] * both_no
    )


@pytest.mark.parametrize(
    ("table", "observed", "kappa"),
    [
        # 35 of 50 agree; yes is said 25 and 30 times, so chance gives 0.5 * 0.6 + 0.5 * 0.4 = 0.5.
        ((20, 5, 10, 15), 0.7, 0.4),
        # 60 of 100 agree in both; what chance gives differs: 0.54, and 0.46.
        ((45, 15, 25, 15), 0.6, (0.6 - 0.54) / 0.46),
        ((25, 35, 5, 35), 0.6, (0.6 - 0.46) / 0.54),
        ((3, 0, 0, 7), 1.0, 1.0),
        ((0, 5, 5, 0), 0.0, -1.0),
        ((0, 4, 0, 0), 0.0, 0.0),  # each is constant, and they differ
        ((4, 1, 0, 0), 0.8, 0.0),  # one always says yes: no better than chance
    ],
)
def test_kappa_worked_by_hand(table, observed, kappa):
    found = cohens_kappa(answers(*table))
    assert (found.count, found.observed) == (sum(table), pytest.approx(observed))
    assert found.kappa == pytest.approx(kappa)


def test_kappa_is_undefined_where_both_always_say_the_same():
    assert cohens_kappa(answers(4, 0, 0, 0)) == Agreement(4, 1.0, None, "both always said yes")
    assert cohens_kappa(answers(0, 0, 0, 3)) == Agreement(3, 1.0, None, "both always said no")
    assert cohens_kappa([]) == Agreement(0, None, None, "nothing was rated by both")


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_kappa_does_not_care_who_is_first_or_what_yes_means(pairs):
    found = cohens_kappa(pairs).kappa
    assert cohens_kappa([(b, a) for a, b in pairs]).kappa == found
    assert cohens_kappa([(not a, not b) for a, b in pairs]).kappa == found
