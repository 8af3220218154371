"""A page to try it all out on: pictures, words, training, predictions. Needs `ipl[ui]`."""

from ipl.errors import ConfigError

try:
    import gradio  # noqa: F401
except ModuleNotFoundError as error:
    raise ConfigError(
        f"The workbench needs the package {error.name}; install it with: pip install 'ipl[ui]'."
    ) from error

from ipl.workbench.bench import Workbench
from ipl.workbench.page import build_page
from ipl.workbench.server import run_workbench
from ipl.workbench.session import Session
from ipl.workbench.settings import Settings

__all__ = ["Session", "Settings", "Workbench", "build_page", "run_workbench"]
