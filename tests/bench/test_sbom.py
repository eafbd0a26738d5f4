"""The bill of materials lists all locked packages, and every licence was reviewed."""

from __future__ import annotations

import json
import re
import sys

import pytest

from bench import sbom
from clusters.paths import ROOT

# Locked for other systems or Python versions; never installed where Plimsoll runs.
ELSEWHERE = {"colorama", "httpx2-jsfetch", "pywin32", "pyyaml-ft"}


def test_every_locked_package_is_in_the_bill_with_its_hashes(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Every locked package is in the CycloneDX bill with its package URL and hashes, and nothing else is."""
    monkeypatch.setattr(sys, "argv", ["sbom"])
    sbom.main()
    bill = json.loads(capsys.readouterr().out)

    pins = {pin for lock in sbom.LOCKS for pin in re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE)}
    assert {lock.name for lock in sbom.LOCKS} >= {"requirements.lock", "requirements-dev.lock", "requirements-s3.lock"}
    assert {(each["name"], each["version"]) for each in bill["components"]} == pins
    assert {"pkg:pypi/{}@{}".format(*pin) for pin in pins} == {each["purl"] for each in bill["components"]}
    assert all(each["externalReferences"][0]["hashes"] for each in bill["components"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    references = [each["bom-ref"] for each in bill["components"]]
    assert len(references) == len(set(references))


def test_every_licence_is_permissive_or_looked_at() -> None:
    """Each licence is permissive, or has a line in `OTHERS` or `UNDECLARED`; each line has its package."""
    licensed = sbom.licences()
    locked = {each.name: each for each in sbom.components()}
    unknown = {name for name, each in locked.items() if name not in licensed and "requirements.lock" in each.locks}
    found = {name: licensed[name] for name in locked if name in licensed}

    assert {
        name: said for name, said in found.items() if not sbom.is_permissive(said) and name not in sbom.OTHERS
    } == {}
    assert unknown <= ELSEWHERE
    assert {*sbom.OTHERS, *sbom.UNDECLARED} <= locked.keys()


@pytest.mark.parametrize(
    ("expression", "permissive"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("BSD-3-Clause AND (MIT AND Zlib)", True),
        ("MIT AND GPL-3.0-only", False),
        ("LGPL-2.1-or-later", False),
        ("", False),
        ("Proprietary", False),
    ],
)
def test_a_licence_is_permissive_if_some_choice_of_it_is(expression: str, permissive: bool) -> None:
    """A licence is permissive if one of its choices is; all licences joined by AND count."""
    assert sbom.is_permissive(expression) is permissive


def test_every_package_is_pinned_by_hashes() -> None:
    """Every package is pinned by hashes, which pip verifies."""
    assert [each.name for each in sbom.components() if not each.hashes] == []
    assert (ROOT / "requirements.lock").read_text().count("--hash=sha256:") > 100
