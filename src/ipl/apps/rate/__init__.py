"""The page on which people rate words. Needs the extra `ipl[serve]`."""

from ipl.apps.extras import require

require("The rating page", "serve", "fastapi", "python_multipart", "uvicorn")
