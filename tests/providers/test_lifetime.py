"""When a model's connections are closed."""

import gc
import weakref

import pytest

from tests.support.agents import of_kind
from tests.support.providers import ASK, HELLO, every_provider, talking


@every_provider
@pytest.mark.parametrize("way", ["plain", "streamed"])  # async clients are closed with their loop
@pytest.mark.usefixtures("no_collection")
def test_a_model_that_is_no_longer_used_is_closed_at_once(provider, way):
    """It does not wait for a garbage collection, which may come at the bottom of the stack."""
    gc.collect()
    with talking(provider) as (_, model):
        ASK[way](model, HELLO)
    held = weakref.ref(model)
    del model
    assert held() is None


@every_provider
@pytest.mark.parametrize("way", ["plain", "async"])  # the streams of SDKs have cycles of their own
@pytest.mark.usefixtures("no_collection")
def test_a_response_is_freed_at_once(provider, way):
    """It is in no cycle: to collect those cost a tenth of a millisecond in eight model calls."""
    with talking(provider) as (_, model):
        of_other_tests = responses(model.http)
        for _ in range(2):
            ASK[way](model, HELLO)
        alive = responses(model.http)
    assert len(alive) == len(of_other_tests)


def responses(http):
    """Those that are not freed. (`gc` knows them, too, while it is disabled.)"""
    return of_kind(gc.get_objects(), http.Response)
