"""The Hugging Face hub: whether a name belongs to it, and whether it can be reached."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
ALLOWED = (
    "owner/name, each of at most 96 letters (a to z), digits, '-', '_' and '.', the first a letter "
    "or a digit"
)


def is_hub_name(name: str) -> bool:
    """Whether a text has the form owner/name, which a local folder can have too."""
    return _NAME.fullmatch(name) is not None


def is_on_hub(name: str) -> bool:
    """Whether a text is owner/name on the hub and no local file or folder."""
    return is_hub_name(name) and not os.path.exists(name)


def is_downloaded(folder: Path) -> bool:
    """Whether a folder is owner/name on the hub, or lies in the hub's local cache."""
    cache = Path(constants.HF_HUB_CACHE).resolve()
    return is_on_hub(str(folder)) or folder.resolve().is_relative_to(cache)


def hub_reachable() -> bool:
    """Whether the hub's host name resolves, or a proxy is configured."""
    # Without network the hub's client would retry for half a minute.
    if any(os.environ.get(k) for k in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    host = urlsplit(constants.ENDPOINT).hostname or ""
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True
