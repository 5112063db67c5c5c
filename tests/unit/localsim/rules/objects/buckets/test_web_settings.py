"""Settings for web sites and logs: kept where they read, refused where they do not."""

import pytest

from unit.localsim.rules.objects.object_rig import refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)


def test_what_reads_is_kept(objects):
    given = {
        "cors": [
            {
                "origin": ["https://example.com"],
                "method": ["GET", "PUT"],
                "responseHeader": ["Content-Type"],
                "maxAgeSeconds": 3600,
            }
        ],
        "website": {"mainPageSuffix": "index.html", "notFoundPage": "404.html"},
        "logging": {"logBucket": "logs", "logObjectPrefix": "box"},
    }
    assert given.items() <= objects.store.buckets.patch("box", given).properties.items()
    cleared = objects.store.buckets.patch("box", {"cors": [], "website": None, "logging": None})
    assert given.keys().isdisjoint(cleared.properties)


@pytest.mark.parametrize(
    "change",
    [
        {"cors": {"origin": ["*"]}},
        {"cors": [5]},
        {"cors": [{"origin": "*"}]},
        {"cors": [{"method": [5]}]},
        {"cors": [{"origin": ["*"], "maxAgeSeconds": "long"}]},
        {"website": "index.html"},
        {"website": {"mainPageSuffix": 5}},
        {"logging": {"logBucket": []}},
    ],
)
def test_what_does_not_read_is_refused(objects, change):
    assert refusal_code(objects.store.buckets.patch, "box", change) == 400
