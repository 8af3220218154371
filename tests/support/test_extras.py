"""A missing package is named, with the command that installs it."""

from __future__ import annotations

import pytest

from ipl.support.errors import ConfigError
from ipl.support.extras import require


def test_a_missing_package_is_named_with_its_extra() -> None:
    require("`ipl serve`", "serve", "json", "fastapi")
    message = r"`ipl serve` needs the package nowhere; .*: pip install 'ipl\[serve\]'\."
    with pytest.raises(ConfigError, match=message):
        require("`ipl serve`", "serve", "json", "nowhere")
