"""Settings that scripts share for models and calls."""

import pytest

from sweet_rl.errors import UserError
from sweet_rl.models.settings import CallSettings, ModelSettings


def test_a_manifest_has_the_request_fields_only_if_there_are_any():
    assert ModelSettings(hostname="node1").to_settings() == {}
    assert ModelSettings(request={"temperature": None}).to_settings() == {"request": {"temperature": None}}


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"patience": -1}, {"endpoint_concurrency": 0}])
def test_values_out_of_range_are_refused_by_the_name_of_their_flag(wrong):
    with pytest.raises(UserError, match=f"--{next(iter(wrong))} is"):
        CallSettings(**wrong)
