"""When a model's connections are closed."""

import gc
import weakref

import pytest

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
