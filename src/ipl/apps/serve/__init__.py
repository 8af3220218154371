"""A learnt prompt as a web service. Needs the extra `ipl[serve]`."""

from ipl.support.extras import require

require("`ipl serve`", "serve", "fastapi", "python_multipart", "uvicorn")

from ipl.apps.limits import Limits  # noqa: E402
from ipl.apps.serve.app import create_app  # noqa: E402

__all__ = ["Limits", "create_app"]
