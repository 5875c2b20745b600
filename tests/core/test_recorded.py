"""Every provider gets the same bytes as when they were recorded (`tests/support/recording.py`)."""

import pytest

from tests.support import recording
from tests.support.recording import SPEAKS, WAYS


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dialect", recording.DIALECTS)
@pytest.mark.parametrize("protocol", SPEAKS)
def test_every_request_body_is_as_recorded(protocol, dialect, way):
    path = recording.bodies_file(protocol, dialect)
    assert recording.talked(protocol, dialect, way) == recording.read_bodies(path, way)
