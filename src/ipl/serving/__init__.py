"""A learnt prompt as a web service. Needs the extra `ipl[serve]`."""

from ipl.errors import ConfigError

try:
    import fastapi  # noqa: F401
    import python_multipart  # noqa: F401
    import uvicorn  # noqa: F401
except ModuleNotFoundError as error:
    raise ConfigError(
        f"The service needs the package {error.name}; install it with: pip install 'ipl[serve]'."
    ) from error

from ipl.serving.app import create_app
from ipl.serving.batcher import Batcher
from ipl.serving.limits import Gate, Limits, Refusal
from ipl.serving.problems import say_errors_in_json
from ipl.serving.server import (
    address_of,
    is_called,
    is_loopback,
    listen,
    names_of,
    run_server,
)
from ipl.serving.uploads import read_object

__all__ = [
    "Batcher",
    "Gate",
    "Limits",
    "Refusal",
    "address_of",
    "create_app",
    "is_called",
    "is_loopback",
    "listen",
    "names_of",
    "read_object",
    "run_server",
    "say_errors_in_json",
]
