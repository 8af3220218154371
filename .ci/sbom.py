"""Writes what is installed beside ipl as a CycloneDX file: versions, licences, locked hashes."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements-test.txt"


def name_of(name: str) -> str:
    """Returns the name of a package as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_hashes(text: str) -> dict[str, list[str]]:
    """Returns the SHA-256 of the files of each package: "name==version" -> hashes."""
    hashes: dict[str, list[str]] = defaultdict(list)
    package = ""
    for line in text.splitlines():
        if match := re.match(r"([A-Za-z0-9_.-]+)==(\S+)", line):
            package = f"{name_of(match[1])}=={match[2]}"
        hashes[package] += re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    return hashes


def component(package: Distribution, hashes: dict[str, list[str]]) -> dict[str, Any]:
    """Returns a package as CycloneDX describes one."""
    name, version, about = name_of(package.metadata["Name"]), package.version, package.metadata
    licence = about.get("License-Expression") or about.get("License") or "not stated"
    files = [f"sha256:{digest}" for digest in hashes.get(f"{name}=={version}", [])]
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": [{"license": {"name": licence.strip().splitlines()[0][:200]}}],
        # The hash of one file would be a component's hash; a release has several files.
        "properties": [{"name": "ipl:locked-file", "value": file} for file in files],
    }


def main(target: Path) -> None:
    """Writes the file."""
    hashes = locked_hashes(LOCK.read_text(encoding="utf-8"))
    packages = sorted(distributions(), key=lambda each: name_of(each.metadata["Name"]))
    components = [component(each, hashes) for each in packages]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({**document, "components": components}, indent=1) + "\n")
    unlocked = [each["name"] for each in components if not each["properties"]]
    print(f"{len(components)} packages in {target}; without a locked hash: {', '.join(unlocked)}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
