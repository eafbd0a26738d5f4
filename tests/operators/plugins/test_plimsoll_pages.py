"""The plugin's entry in Airflow's navigation."""

from operators.plugins.plimsoll_pages import views


def test_the_pages_are_in_the_navigation_where_they_are_served() -> None:
    """The navigation links to the index where pages are served; without a pages server there is no entry."""
    (view,) = views("http://127.0.0.1:8081/")

    assert view["href"] == "http://127.0.0.1:8081/site/index.html"
    assert (view["destination"], view["url_route"]) == ("nav", "plimsoll")
    assert views(None) == []
