"""The page on which people rate words. Needs the extra `ipl[serve]`."""

from ipl.apps.extras import require

require("ipl rate", "serve", "fastapi", "python_multipart", "uvicorn")
